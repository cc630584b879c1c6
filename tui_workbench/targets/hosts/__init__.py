"""Machines that execute runs, local or remote: starting programs, sending and fetching files, host folders.

The SSH connection belongs to `targets.ssh`.
"""
