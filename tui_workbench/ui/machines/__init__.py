"""The Compute targets pane, and attaching and checking a machine. The checks belong to `targets.checks`."""
