"""Compute targets: the protocol, the target types, environments, GPU samples and checks."""
