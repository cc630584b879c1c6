"""The details of a run: metrics, files, log, plan and GPUs. Commands on a run belong to `ui.runs`."""
