"""Dialogs of all screens: the palette, the help, and the choice of a theme."""
