"""Configuration files of a project: reading, checking and byte-preserving editing. Independent of screens and runs."""
