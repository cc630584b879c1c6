"""Execute a run on several machines at the same time, on a target of type `group`.

The targets of the members execute the parts of the run, whatever their type. Each part has its own run directory on
its machine, and the folder `ranks/MEMBER` in the run's directory on this machine.
"""
