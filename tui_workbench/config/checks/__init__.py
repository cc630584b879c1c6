"""Checks of configuration files. A check changes nothing.

`structure` checks a file against the schema, `project` checks it against the other files, `gpu` checks the settings for
GPUs and torchrun, `spark` those for Spark, and `dependencies` checks the packages. `Document.problems` runs all of
them; `findings.CODES` lists the findings.
"""
