"""Secrets in the system's keyring and references in files."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.machines import PASSWORD
from tests.proc import PROC
from tests.targets.conftest import link_processes
from tui_workbench.targets.hosts import secrets
from tui_workbench.targets.hosts.secrets import NO_BUS, KeyringResult, SecretStore, is_reference, new_reference
from tui_workbench.targets.ssh.login_secrets import store_secret, stored_secret
from tui_workbench.targets.ssh.ssh_host import SshHost

if TYPE_CHECKING:
    from tui_workbench.targets.ssh import ssh_wire as wire


@pytest.mark.parametrize("secret", [PASSWORD, "", " a\nb ", "ä€", "x" * 10_000])
@pytest.mark.usefixtures("keyring")
def test_secret_is_stored_and_read(secret: str) -> None:
    store, reference = SecretStore(), new_reference("box", "me")
    assert store.put(reference, secret) == KeyringResult(in_keyring=True)
    assert store.get(reference) == secret


@pytest.mark.usefixtures("keyring")
def test_secrets_are_stored_by_reference() -> None:
    store, one, other = SecretStore(), new_reference("box", "me"), new_reference("box", "me")
    store.put(one, "1")
    store.put(other, "2")
    store.put(one, "3")
    assert (store.get(one), store.get(other)) == ("3", "2")


@pytest.mark.usefixtures("keyring")
def test_forgotten_secret_is_removed() -> None:
    store, reference = SecretStore(), new_reference("box", "me")
    store.put(reference, PASSWORD)
    store.forget(reference)
    assert store.get(reference) is None
    store.forget(reference)


def test_secret_is_not_in_a_readable_file(keyring: Path, home: Path, connections: Path) -> None:
    SecretStore().put(new_reference("box", "me"), PASSWORD)
    assert list(keyring.iterdir())
    for path in [*home.rglob("*"), *connections.rglob("*")]:
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes()


def test_missing_keyring_is_reported() -> None:
    store, reference = SecretStore(), new_reference("box", "me")
    assert store.put(reference, PASSWORD) == KeyringResult(in_keyring=False, reason=NO_BUS, has_bus=False)
    assert store.get(reference) is None


def test_plain_text_keyring_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plaintext.py").write_text(
        "from keyring.backend import KeyringBackend\n"
        "class Keyring(KeyringBackend):\n"
        "    priority = 0.5\n"
        "    def set_password(self, *words): raise SystemExit('written')\n"
        "    def get_password(self, *words): raise SystemExit('read')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "plaintext.Keyring")
    assert SecretStore().put(new_reference("box", "me"), PASSWORD).reason == NO_BUS


@pytest.mark.processes
def test_locked_keyring_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locked.py").write_text(
        "import signal\n"
        "from keyring.backend import KeyringBackend\n"
        "class Keyring(KeyringBackend):\n"
        "    priority = 5\n"
        "    def get_password(self, *words): signal.pause()\n"
        "    set_password = delete_password = get_password\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "locked.Keyring")
    monkeypatch.setattr(secrets, "KEYRING_SECONDS", 0.5)
    store, reference = SecretStore(), new_reference("box", "me")
    assert store.get(reference) is None
    assert "does not answer" in store.put(reference, PASSWORD).reason


def test_error_of_the_keyring_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "refusing.py").write_text(
        "from keyring.backend import KeyringBackend\n"
        "from keyring.errors import KeyringLocked\n"
        "class Keyring(KeyringBackend):\n"
        "    priority = 5\n"
        "    def get_password(self, *words): raise KeyringLocked('The collection\\nis locked')\n"
        "    set_password = delete_password = get_password\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "refusing.Keyring")
    kept = SecretStore().put(new_reference("box", "me"), PASSWORD)
    assert kept.reason == "the keyring refused: The collection is locked"


def test_reference_has_the_form_of_the_original() -> None:
    reference = new_reference("my box", "someone")
    assert re.fullmatch(r"AzureMlSecret=my box#someone#[0-9a-f]{32}", reference)
    assert reference != new_reference("my box", "someone")
    assert is_reference(reference)
    assert is_reference(new_reference("a#b", "c#d"))


@pytest.mark.parametrize("text", ["", "secret", "AzureMlSecret=", "AzureMlSecret=a#b", "AzureMlSecret=a#b#c\nd"])
def test_other_texts_are_not_references(text: str) -> None:
    assert not is_reference(text)
    assert SecretStore().get(text) is None


def test_login_reads_its_password_from_the_keyring(
    keyring: Path, login: wire.Login, ssh_folder: Path, connections: Path
) -> None:
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    login = login._replace(password=new_reference("gpubox", "research"))
    store_secret(login, login.password, PASSWORD)
    host = SshHost(login, partial(stored_secret, login))
    assert host.run(["id", "-un"]).text == "research"
    for pid in [*link_processes(connections), os.getpid()]:
        for name in ("cmdline", "environ"):
            assert PASSWORD.encode() not in (PROC / f"{pid}/{name}").read_bytes()
