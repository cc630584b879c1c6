"""Files and records of runs on their way in and out: downloads, assets, MLflow import and export.

Transfer between machines during a run belongs to `targets`.
"""
