"""A run from its directory to its end: controller, queue, cancel, resume, adoption, collection and cleaning.

Creating a run belongs to `runs.submission`, its files to `runs.store`, copies of the project to `runs.snapshots`.
"""
