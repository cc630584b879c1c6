"""Compute targets: the protocol, the registry of types, and one folder for each kind of machine."""
