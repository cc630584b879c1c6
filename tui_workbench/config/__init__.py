"""Configuration files of a project: reading, checking and byte-preserving editing. Knows no screen and no runs."""
