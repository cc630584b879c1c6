"""Docker engines, local and remote: containers, images, engine logs and cleanup.

Building an environment belongs to `targets.environments`.
"""
