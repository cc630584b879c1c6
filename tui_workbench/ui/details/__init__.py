"""The details of a run: its log, files, metrics, plan and GPUs.

Actions on a run belong to `ui.runs`.
"""
