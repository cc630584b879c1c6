"""`computetarget ...`: attach, check, detach and list."""
