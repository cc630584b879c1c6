"""`experiment ...`: submit and manage runs."""
