"""Project folders: finding and loading them, and creating them from templates.

Configuration files are read and edited in `config`; runs of a project are in `runs`.
"""
