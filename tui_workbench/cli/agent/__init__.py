"""Instructions and tools for coding agents, and the decisions of the user about their requests."""
