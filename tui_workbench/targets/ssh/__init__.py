"""Machines over SSH: connections, host keys, keys, the process that shares a connection, and `type: remote`.

File transfer is the same for every host and belongs to `targets.hosts`.
"""
