"""Notifications about runs that reach the user away from the terminal: the user's channels, and sending to them.

The notifications of the screens are in `ui`.
"""
