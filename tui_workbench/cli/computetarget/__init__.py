"""`computetarget ...`: attach, check, list and detach compute targets."""
