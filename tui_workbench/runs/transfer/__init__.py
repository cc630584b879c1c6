"""Export, import and copies of runs: downloads, assets, MLflow.

Transfer between machines during a run belongs to `targets`.
"""
