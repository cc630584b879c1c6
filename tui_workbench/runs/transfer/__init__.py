"""Copy the files of runs, and import and export runs: downloads, assets, files for the project, MLflow.

Transfers between machines during a run belong to `targets`.
"""
