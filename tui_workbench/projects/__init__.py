"""Find, load and create project folders.

Code that reads and edits configuration files belongs to `config`, and code for runs belongs to `runs`.
"""
