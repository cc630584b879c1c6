"""The addresses and user names of SSH logins, with the limits of OpenSSH.

Both become arguments of programs, such as a ProxyCommand of the user, and names in known_hosts, but may come from a
project or a run directory that the user does not trust. Since version 9.6, `ssh` refuses names that a shell or a
program could interpret. This module refuses the same names, and those that known_hosts would read as patterns.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from tui_workbench.core.masking import MASK

LAST_PORT = 65535

_SHELL = "'`\"$\\;&<>|(){}"
_FORBIDDEN_IN_HOSTS = f"{_SHELL}*?!,#@/[]"
# A backslash separates a Windows domain from the user.
_FORBIDDEN_IN_USERS = _SHELL.replace("\\", "")
_SCHEME = re.compile(r"\A[a-z]+://")


class Mistake(NamedTuple):
    """A problem of an address or a user name, and its fix.

    `host` and `user` are the parts of an address that contains more than a host; they are "" otherwise.
    """

    message: str  # a clause that quotes the value, without a password
    remedy: str  # a sentence
    host: str = ""
    user: str = ""


def split_address(address: str) -> tuple[str, int]:
    """Return the host and the port of an address such as `box:22`, `[::1]:22` or `::1`; port 0 if it has none.

    An address with a mistake has the port 0.
    """
    host, port = _split(address)
    return (host, int(port)) if _is_port(port) else (address.strip("[]"), 0)


def address_mistake(address: str) -> Mistake | None:
    """Return the mistake in an address, or None. A valid address is HOST or HOST:PORT, with brackets for IPv6."""
    more = _without_login(address)
    if more is not None:
        return more
    host, port = _split(address)
    if port and not _is_port(port):
        return Mistake(f"the port {port!r} of {address!r} is not a number from 1 to {LAST_PORT}", "Write HOST:PORT.")
    if address.endswith(":") and ":" not in host:
        return Mistake(f"the address {address!r} has no port after the colon", f"Write {host}, or {host}:PORT.")
    if not host:
        return Mistake(f"the address {address!r} has no host", "Write HOST or HOST:PORT.")
    if ":" in host and not _is_ipv6(host):
        return Mistake(
            f"{address!r} is neither HOST:PORT nor an IPv6 address",
            "Write HOST:PORT. Write an IPv6 address with a port as [ADDRESS]:PORT.",
        )
    return _forbidden("address", address, host, _FORBIDDEN_IN_HOSTS)


def username_mistake(username: str) -> Mistake | None:
    """Return the mistake in a user name, or None. An empty name is valid: it means the default user."""
    if username.endswith("\\"):
        return Mistake(f"the username {username!r} ends with a backslash", "Remove the backslash.")
    return _forbidden("username", username, username, _FORBIDDEN_IN_USERS)


def _split(address: str) -> tuple[str, str]:
    """Return the host without brackets, and the text after the colon of a port."""
    if address.startswith("["):
        host, bracket, rest = address[1:].partition("]")
        return (host, rest[1:]) if bracket and rest[:1] in ("", ":") else (address, "")
    host, colon, port = address.partition(":")
    return (host, port) if colon and ":" not in port else (address, "")


def _is_port(port: str) -> bool:
    return re.fullmatch("[0-9]{1,5}", port) is not None and 1 <= int(port) <= LAST_PORT


def _is_ipv6(host: str) -> bool:
    try:
        return bool(ipaddress.IPv6Address(host))
    except ValueError:
        return False


def _without_login(address: str) -> Mistake | None:
    """Return the mistake of an address with a scheme, a user, a path or white space around it."""
    rest = _SCHEME.sub("", address.strip())
    rest = rest.rstrip("/") if rest != address.strip() else rest
    login, _, host = rest.rpartition("@")
    if host == address:
        return None
    user, colon, _ = login.partition(":")
    shown = f"{user}{colon and ':'}{MASK if colon else ''}@{host}" if login else host
    shown = address.replace(rest, shown) if rest else address
    return Mistake(
        f"the address contains more than a host: {shown!r}",
        "Write only HOST or HOST:PORT, and the user separately.",
        host,
        user,
    )


def _forbidden(noun: str, shown: str, name: str, forbidden: str) -> Mistake | None:
    if name.startswith("-"):
        return Mistake(f"the {noun} {shown!r} begins with a hyphen", "Programs would read it as an option. Correct it.")
    wrong = next((mark for mark in name if mark in forbidden or mark.isspace() or not mark.isprintable()), "")
    if not wrong:
        return None
    return Mistake(
        f"the {noun} {shown!r} contains {'white space' if wrong.isspace() else repr(wrong)}",
        f"Remove it: as in `ssh`, the {noun} must not contain white space or characters that a shell interprets.",
    )
