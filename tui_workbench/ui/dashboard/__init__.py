"""The dashboard of all runs: table, columns and charts. The chart widget belongs to `ui.charts`."""
