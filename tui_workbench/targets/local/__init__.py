"""The local machine as a compute target, with the user's interpreter or a managed environment.

Process supervision is shared with other hosts and belongs to `targets.hosts`.
"""
