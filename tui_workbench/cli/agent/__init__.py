"""Coding agents: the server whose tools they call, and the user's decisions about their requests."""
