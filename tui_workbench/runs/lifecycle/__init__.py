"""Execute runs that have a directory: controller, watcher, queue, cancel, resume, adoption, collection and cleanup.

The creation of a run belongs to `runs.submission`, its files to `runs.store`, and copies of the project to
`runs.snapshots`.
"""
