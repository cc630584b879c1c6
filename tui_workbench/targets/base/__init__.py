"""Code that all compute targets share: the protocol, the command and the variables of a script, and interpreters.

Code for a single type belongs to the folder of that type.
"""
