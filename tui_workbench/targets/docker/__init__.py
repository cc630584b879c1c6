"""Docker engines, local and remote: containers, images, engine logs and cleanup.

The recipes of the environments that are built belong to `targets.environments`.
"""
