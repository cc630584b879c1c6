"""Every speed promise as a script that measures ours and a named baseline in turns and prints their ratio."""
