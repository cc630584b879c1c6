"""The Compute targets pane, and screens to attach, check and prepare machines. The checks are in `targets.checks`."""
