"""The start screen. The panes of an open project are in the other folders."""
