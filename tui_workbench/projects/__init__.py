"""Find, load and create project folders.

Code that reads and edits configuration files belongs to `config`, code for runs to `runs`.
"""
