"""The boxes of the main screen: each shows one kind of thing, and posts what happened in it."""
