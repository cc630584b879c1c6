"""Checks of configuration files: what is wrong, and what is unwise. A check only looks.

`structure` knows one file and the schema, `project` the files around it, `gpu` what a GPU and torchrun need,
`dependencies` packages. `Document.problems` runs all of them; `findings.CODES` lists what they can find.
"""
