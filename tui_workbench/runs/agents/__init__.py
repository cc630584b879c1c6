"""Runs that coding agents start: the user's limits, what the runs use, and requests that wait for an approval.

The tools that an agent calls are in `cli.agent`.
"""
