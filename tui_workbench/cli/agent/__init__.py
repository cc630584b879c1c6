"""Serve tools to coding agents, and let the user decide about the requests of agents."""
