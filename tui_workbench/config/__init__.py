"""Configuration files of a project: reading, checking and byte-preserving editing. Knows nothing of screens or runs."""
