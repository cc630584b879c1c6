"""Where runs execute: the protocol, the registry of types, and one module for each type."""
