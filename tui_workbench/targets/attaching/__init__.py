"""Attach machines to a project, and detach them: the files, the keys and the secrets of a login."""
