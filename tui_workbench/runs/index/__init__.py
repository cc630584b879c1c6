"""Find and list the runs of a project: the index and its table, history records, damaged files, and the trash."""
