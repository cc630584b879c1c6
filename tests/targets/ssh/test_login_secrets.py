"""A stored secret is used only for the machine or the key file that it was stored for."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.machines import PASSWORD, Machine, secret_in_keyring
from tui_workbench.targets.hosts.host import SecretNeeded
from tui_workbench.targets.hosts.secrets import SecretStore, new_reference
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.login_secrets import store_secret, store_typed, stored_secret
from tui_workbench.targets.ssh.ssh_host import SshHost

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("keyring")

OTHER_KEY = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def reference() -> str:
    return new_reference("box", "me")


@pytest.fixture
def by_password(login: wire.Login, ssh_folder: Path, reference: str) -> wire.Login:
    """Return a login to a machine that accepts only the password."""
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    return login._replace(password=reference)


def machine(login: wire.Login) -> SshHost:
    return SshHost(login, partial(stored_secret, login))


@pytest.mark.parametrize(
    "change",
    [
        lambda login: login._replace(address="10.0.0.9"),
        lambda login: login._replace(address="gpu-box:2222"),
        lambda login: login._replace(address="gpu-box.example"),
        lambda login: login._replace(username="root"),
        lambda login: login._replace(username=""),
        lambda login: login._replace(password="", passphrase=login.password, private_key="~/key"),
    ],
    ids=["address", "port", "name", "user", "no user", "as a passphrase"],
)
def test_secret_is_not_used_for_anything_else(reference: str, change: Callable[[wire.Login], wire.Login]) -> None:
    login = wire.Login("box", "gpu-box", "alice", password=reference)
    store_secret(login, reference, PASSWORD, OTHER_KEY)
    found, other = stored_secret(login, reference), stored_secret(change(login), reference)
    assert found is not None
    assert (found.value, found.host_key, found.refusal) == (PASSWORD, OTHER_KEY, "")
    assert other is not None
    assert other.value == ""
    assert other.refusal.endswith(" is for alice@gpu-box")


def test_passphrase_is_not_used_as_a_password_or_for_another_key(reference: str) -> None:
    login = wire.Login("box", "gpu-box", private_key="~/key", passphrase=reference)
    store_secret(login, reference, PASSWORD)
    for other in (login._replace(passphrase="", password=reference), login._replace(private_key="~/other")):
        found = stored_secret(other, reference)
        assert found is not None
        assert (found.value, found.refusal.partition(" is ")[2]) == ("", "for the key ~/key")


def test_targets_with_the_same_reference_have_their_own_secrets(reference: str) -> None:
    one, other = (wire.Login("box", address, password=reference) for address in ("one", "two"))
    store_secret(one, reference, "1")
    store_secret(other, reference, "2")
    store_secret(one, reference, "3")
    assert [found and found.value for found in (stored_secret(one, reference), stored_secret(other, reference))] == [
        "3",
        "2",
    ]


def test_password_is_not_sent_to_another_address(by_password: wire.Login, gpubox: Machine, reference: str) -> None:
    store_secret(by_password._replace(address="gpu-box", username="alice"), reference, PASSWORD)
    before = _logins(gpubox)
    with pytest.raises(SecretNeeded, match="the stored password is for alice@gpu-box") as caught:
        machine(by_password).run(["true"])
    assert caught.value.prompt == f"Password of research on {gpubox.address} (the stored password is for alice@gpu-box)"
    assert _logins(gpubox) == before


def test_entry_of_an_earlier_version_asks_once(by_password: wire.Login, reference: str, gpubox: Machine) -> None:
    SecretStore().put(reference, PASSWORD)
    host, before = machine(by_password), _logins(gpubox)
    with pytest.raises(SecretNeeded, match="does not say which machine it is for"):
        host.run(["true"])
    assert _logins(gpubox) == before
    host.give_secret(reference, PASSWORD)
    host.run(["true"])
    store_typed(host, {reference: PASSWORD})
    host.disconnect()
    assert machine(by_password).run(["id", "-un"]).text == "research"


def test_password_is_not_sent_to_another_host_key(by_password: wire.Login, reference: str, gpubox: Machine) -> None:
    store_secret(by_password, reference, PASSWORD, OTHER_KEY)
    host, before = machine(by_password), _logins(gpubox)
    with pytest.raises(SecretNeeded, match=r"for another host key than SHA256:.*was not sent") as caught:
        host.run(["true"])
    assert caught.value.host_verified
    assert _logins(gpubox) == before
    host.give_secret(reference, PASSWORD)  # the user enters the password for the new key
    host.run(["true"])
    store_typed(host, {reference: PASSWORD})
    host.disconnect()
    assert machine(by_password).run(["id", "-un"]).text == "research"


def test_first_login_binds_the_password_to_the_host_key(by_password: wire.Login, reference: str) -> None:
    store_secret(by_password, reference, PASSWORD)
    host = machine(by_password)
    host.run(["true"])
    found = stored_secret(by_password, reference)
    assert found is not None
    assert found.host_key == host.status()["host_key"] != ""
    assert secret_in_keyring(reference) == PASSWORD


def test_password_in_memory_is_bound_to_the_host_key(
    by_password: wire.Login, reference: str, gpubox: Machine, ssh_folder: Path
) -> None:
    host = SshHost(by_password)
    host.give_secret(reference, PASSWORD)
    host.run(["true"])
    kept = {name: (gpubox.folder / name).read_bytes() for name in ("host_key", "host_key.pub")}
    gpubox.stop_sshd()
    try:
        gpubox.new_host_key()
        (ssh_folder / "known_hosts").write_text(gpubox.known_hosts_line)
        gpubox.start_sshd()
        with pytest.raises(SecretNeeded, match="for another host key"):
            host.wait_until_reachable()
    finally:
        gpubox.stop_sshd()
        for name, data in kept.items():
            (gpubox.folder / name).write_bytes(data)
        gpubox.start_sshd()


def _logins(gpubox: Machine) -> int:
    """Return how many passwords were sent to the machine."""
    text = (gpubox.folder / "sshd.log").read_bytes()
    return text.count(b"Accepted password") + text.count(b"Failed password")
