"""Submit runs: the request, its plan, its environment, and the run directory with its snapshot.

What happens once the run has its directory belongs to `runs.lifecycle`.
"""
