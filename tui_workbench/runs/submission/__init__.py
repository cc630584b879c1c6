"""Submitting a run: the request, its plan, the environment it needs, and the run directory with its snapshot.

What happens once the run has its directory belongs to `runs.lifecycle`.
"""
