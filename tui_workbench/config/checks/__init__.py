"""Checks of configuration files. A check changes nothing.

`structure` checks one file against the schema, `project` against the other files, `gpu` for GPUs and torchrun, and
`dependencies` its packages. `Document.problems` runs all of them; `findings.CODES` lists the findings.
"""
