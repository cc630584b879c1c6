"""Addresses as they may be shown: the password in one is nobody's business."""

from __future__ import annotations


def without_secrets(address: str) -> str:
    """The address with a mask in place of a user's password or token."""
    scheme, separator, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    if not separator or not at:
        return address
    name, colon, _ = user.partition(":")
    # A token can stand there as the name; behind that of an SSH user is no secret.
    shown = f"{name}:***" if colon else name if scheme.lower().endswith("ssh") else "***"
    return f"{scheme}://{shown}@{host}{slash}{path}"
