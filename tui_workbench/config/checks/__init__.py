"""Check configuration files. A check changes no file.

`structure` checks a file against the schema, and `project` checks it against the other files of the project. `gpu`
checks settings for GPUs and torchrun, `spark` settings for Spark, `data` references to data, and `dependencies`
packages. `Document.problems` runs all checks, and `findings.CODES` lists their findings.
"""
