"""The screens in a browser: the server, its page and its driver.

The screens themselves do not know that a browser shows them.
"""
