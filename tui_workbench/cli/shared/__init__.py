"""Parts that several commands share: output, prompts, progress and parsing.

A command belongs to the module of its noun.
"""
