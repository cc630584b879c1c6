"""Addresses and user names of logins."""

from __future__ import annotations

import pytest

from tui_workbench.core.addresses import address_mistake, split_address, username_mistake


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("box", ("box", 0)),
        ("box:22", ("box", 22)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
        ("::1", ("::1", 0)),
        ("[::1]", ("::1", 0)),
        ("[fd00::2]:2222", ("fd00::2", 2222)),
        ("fe80::1%eth0", ("fe80::1%eth0", 0)),
        ("[fe80::1%eth0]:22", ("fe80::1%eth0", 22)),
        ("[10.0.0.1]:22", ("10.0.0.1", 22)),
        ("my_box.lan", ("my_box.lan", 0)),
        ("rechner-für-gpu.example", ("rechner-für-gpu.example", 0)),
        ("box+test=1~a^b", ("box+test=1~a^b", 0)),
    ],
)
def test_valid_address_has_a_host_and_a_port(address: str, parts: tuple[str, int]) -> None:
    assert address_mistake(address) is None
    assert split_address(address) == parts


@pytest.mark.parametrize("character", [*" \t\n\r\v\f\0\x1b\x7f\u00a0\u200b\u202e'`\"$\\;&<>|(){}*?!,#/"])
def test_address_with_a_shell_character_is_refused(character: str) -> None:
    for address in (f"a{character}b", f"a{character}b:22", f"[a{character}b]:22"):
        assert address_mistake(address) is not None


@pytest.mark.parametrize("character", [*"\t\n\r\0\x1b\x7f\u00a0\u202e'`\"$;&<>|(){} "])
def test_username_with_a_shell_character_is_refused(character: str) -> None:
    assert username_mistake(f"a{character}b") is not None


@pytest.mark.parametrize(
    "username", ["", "research", "me@corp.example", r"CORP\me", "a.b-c_d", "user:target", "jürgen"]
)
def test_usual_usernames_are_valid(username: str) -> None:
    assert username_mistake(username) is None


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "-", "--"])
def test_names_that_begin_with_a_hyphen_are_refused(name: str) -> None:
    for mistake in (address_mistake(name), address_mistake(f"[{name}]:22"), username_mistake(name)):
        assert mistake is not None
        assert "begins with a hyphen" in mistake.message


def test_username_that_ends_with_a_backslash_is_refused() -> None:
    assert username_mistake("me\\") is not None


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:22751falsch", "the port '22751falsch' of '127.0.0.1:22751falsch' is not a number"),
        ("box:0", "the port '0'"),
        ("box:65536", "the port '65536'"),
        ("box:²", "the port '²'"),
        ("[::1]:x", "the port 'x'"),
        ("box:", "no port after the colon"),
        (":22", "has no host"),
        ("[]:22", "has no host"),
        ("box:22:23", "neither HOST:PORT nor an IPv6 address"),
        ("fd00::2::3", "neither HOST:PORT nor an IPv6 address"),
        ("[::1", "neither"),
        ("[::1]22", "neither"),
        ("::1]", "neither"),
    ],
)
def test_wrong_port_or_ipv6_address_is_named(address: str, said: str) -> None:
    mistake = address_mistake(address)
    assert mistake is not None
    assert said in mistake.message


@pytest.mark.parametrize(
    ("address", "host", "user"),
    [
        ("me@box", "box", "me"),
        ("ssh://me@box:22", "box:22", "me"),
        ("ssh://box", "box", ""),
        ("ssh://me@box/", "box", "me"),
        ("ssh://me@[::1]:22/", "[::1]:22", "me"),
        (" box ", "box", ""),
        ("me:hunter2@box", "box", "me"),
        ("a@b@box", "box", "a@b"),
    ],
)
def test_address_with_more_than_a_host_is_corrected(address: str, host: str, user: str) -> None:
    mistake = address_mistake(address)
    assert mistake is not None
    assert (mistake.host, mistake.user) == (host, user)
    assert "hunter2" not in mistake.message + mistake.remedy
