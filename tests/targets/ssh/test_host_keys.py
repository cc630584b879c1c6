"""known_hosts files are read as OpenSSH reads them, and only appended to."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tests.machines import fingerprint, make_key
from tui_workbench.core.errors import StorageError
from tui_workbench.targets.ssh import known_hosts
from tui_workbench.targets.ssh.known_hosts import KnownHosts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a public key without its comment."""
    path = make_key(tmp_path_factory.mktemp("host") / "key")
    return path.with_suffix(".pub").read_text().rsplit(" ", 1)[0]


@pytest.fixture
def known(tmp_path: Path) -> KnownHosts:
    return KnownHosts([str(tmp_path / "ssh" / "known_hosts"), str(tmp_path / "global")])


def write(known: KnownHosts, *lines: str) -> None:
    import os

    os.makedirs(os.path.dirname(known.paths[0]), exist_ok=True)
    with open(known.paths[0], "w") as file:
        file.write("".join(line + "\n" for line in lines))


@pytest.mark.parametrize(
    ("hosts", "port", "found"),
    [
        ("box", 22, True),
        ("BOX", 22, True),
        ("other", 22, False),
        ("other,box", 22, True),
        ("10.1.2.3", 22, False),  # its address
        ("b?x", 22, True),
        ("b*", 22, True),
        ("b*,!box", 22, False),
        ("!box,b*", 22, False),
        ("[box]:2222", 22, False),
        ("[box]:2222", 2222, True),
        ("[box]:2223", 2222, False),
        ("box", 2222, True),  # OpenSSH falls back to the bare name
        ("[b*]:2222", 2222, True),
    ],
)
def test_lines_that_match_a_host(known: KnownHosts, public: str, hosts: str, port: int, *, found: bool) -> None:
    write(known, f"{hosts} {public}")
    assert any(known.lookup("box", port)) is found


def test_lines_for_the_bare_name_are_separate_on_another_port(known: KnownHosts, public: str) -> None:
    write(known, f"box {public}", f"[box]:2222 {public}")
    exact, without_port = known.lookup("box", 2222)
    assert ([entry.line for entry in exact], [entry.line for entry in without_port]) == ([2], [1])


def test_alias_is_looked_up_without_the_port(known: KnownHosts, public: str) -> None:
    write(known, f"box {public}", f"[lab]:2222 {public}", f"lab {public}")
    assert [entry.line for entry in known.lookup("box", 2222, alias="lab").exact] == [3]


def test_hashed_names_are_matched(known: KnownHosts, public: str) -> None:
    write(known, f"box,[box]:2222 {public}")
    subprocess.run([require("ssh-keygen"), "-q", "-H", "-f", known.paths[0]], check=True, capture_output=True)
    assert len(known.lookup("box", 22).exact) == 1
    assert len(known.lookup("box", 2222).exact) == 1
    assert not any(known.lookup("other", 22))


def test_markers_are_parsed(known: KnownHosts, public: str) -> None:
    write(known, f"@cert-authority *.example.org {public}", f"@revoked * {public}", f"@unheard-of * {public}")
    assert [entry.marker for entry in known.lookup("a.example.org", 22).exact] == ["@cert-authority", "@revoked"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "#comment",
        "box",
        "box ssh-ed25519",
        "box ssh-ed25519 !!!",
        "box ssh-rsa {key}",
        "|1|x|y {both}",
        "|2|x=|y= {both}",
    ],
)
def test_invalid_lines_are_skipped(known: KnownHosts, public: str, line: str) -> None:
    write(known, line.format(key=public.split()[1], both=public), f"box {public}")
    assert [entry.line for entry in known.lookup("box", 22).exact] == [2]


def test_missing_files_are_empty(known: KnownHosts) -> None:
    assert list(known.entries()) == []


@pytest.mark.ssh
def test_fingerprints_are_those_of_openssh(tmp_path: Path) -> None:
    path = make_key(tmp_path / "key").with_suffix(".pub")
    assert known_hosts.fingerprint(path.read_text().split()[1]) == fingerprint(path)


def test_accepted_key_is_found(known: KnownHosts, public: str) -> None:
    known.accept("box", public)
    known.accept("[box]:2222", public)
    assert [entry.openssh for entry in known.lookup("box", 22).exact] == [public]
    assert [entry.line for entry in known.lookup("box", 2222).exact] == [2]


def test_file_and_folder_are_private_to_the_user(known: KnownHosts, public: str, tmp_path: Path) -> None:
    known.accept("box", public)
    assert (tmp_path / "ssh").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "ssh" / "known_hosts").stat().st_mode & 0o777 == 0o600


def test_existing_lines_are_kept(known: KnownHosts, public: str, tmp_path: Path) -> None:
    write(known, "# mine")
    path = tmp_path / "ssh" / "known_hosts"
    path.write_bytes(path.read_bytes() + b"no line end \xff")
    known.accept("box", public)
    assert path.read_bytes() == b"# mine\nno line end \xff\n" + f"box {public}\n".encode()


def test_read_only_file_is_named(known: KnownHosts, public: str, tmp_path: Path) -> None:
    (tmp_path / "ssh").write_text("a file")
    with pytest.raises(StorageError, match="known_hosts: cannot add the host key"):
        known.accept("box", public)
