"""Install the missing software for runs on a machine with Ubuntu or Debian.

`steps` is the only list of commands. `preparation` runs them on a machine, and `cloud_init` writes them into a file for
a machine that does not exist yet. Checks of targets belong to `targets.checks`.
"""
