"""What panes and screens are built from."""
