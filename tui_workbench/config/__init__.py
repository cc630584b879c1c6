"""Read, check and edit the configuration files of a project. Nothing here depends on runs, targets or screens."""
