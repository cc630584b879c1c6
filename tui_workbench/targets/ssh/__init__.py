"""Machines over SSH: connections, host keys, keys, secrets of logins, and the process that shares a connection.

File transfer is the same for every host and belongs to `targets.hosts`. Runs over SSH belong to `targets.remote`.
"""
