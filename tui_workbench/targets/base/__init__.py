"""Code that all compute targets share: the protocol, the registry of types, attaching, secrets and interpreters.

Code for a single type belongs to the folder of that type.
"""
