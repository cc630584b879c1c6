"""Generic widgets of panes and screens. Widgets that know runs or targets belong to their feature's folder."""
