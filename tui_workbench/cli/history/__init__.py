"""`history ...`: list, compare, annotate, download and export."""
