"""Execute runs that have a directory: controller, watcher, queue, adoption and collection of outputs.

The submission of a run belongs to `runs.submission`, its files to `runs.store`, and copies of the project to
`runs.snapshots`.
"""
