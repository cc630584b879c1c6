"""The `sh` scripts that make, collect and remove a run's copy of the project on another machine.

Making and removing a copy of many files takes long. The copy of an ended run is therefore kept as the *spare*, beside
the last sent files of the project (the *tree*). The next run takes it by a rename, and replaces only what differs from
the tree. A copy has two lists, made when it was complete and equal to the tree: `placed.copy` of its own files, and
`placed.tree` of those of the tree. A file of the spare is reused if neither it nor the file in the tree has changed
since; the change time and the inode are compared. Everything else is replaced, also folders in which the run created or
removed something, because a run may have given them other attributes. The result is listed again and compared with the
tree. After any doubt or error, the run gets a new copy of the tree.
"""

from __future__ import annotations

from tui_workbench.core.shell_scripts import shell_script

SPARE_FILES = 2_000
"""Minimum number of files of a copy that is kept. A smaller copy is created and removed quickly."""

PLACE = shell_script("targets/hosts/scripts/place.sh")

COLLECT = shell_script("targets/hosts/scripts/collect_outputs.sh")

REMOVE_COPY = shell_script("targets/hosts/scripts/remove_copy.sh")
