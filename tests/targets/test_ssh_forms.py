"""Forms of ~/.ssh/config lead to the same machine as with `ssh`."""

from __future__ import annotations

import base64
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.conftest import open_folder, require
from tests.machines import Machine, ip, machine
from tests.targets.ssh_forms import FAILED
from tests.targets.test_ssh_login import RELAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.ssh

MORE_FORMS = "WORKBENCH_SSH_FORMS"
"""Names a Python file with more forms, `FORMS = {name: configuration as bytes}`."""

FORMS: dict[str, bytes] = {
    "a time with a unit": b"Host box\n  HostName {box}\n  ServerAliveInterval 1m\n  ConnectTimeout 10s\n",
    "no time limit": b"Host box\n  HostName {box}\n  ConnectTimeout none\n",
    "the name of a port": b"Host box\n  HostName {box}\n  Port ssh\n",
    "a comment behind a value": b"Host box\n  HostName {box} # the GPU box\n  IdentitiesOnly yes # keys\n",
    "another encoding": b"# Rechner f\xfcr GPU\nHost box\n  HostName {box}\n",
    "a byte order mark": b"\xef\xbb\xbfHost box\n  HostName {box}\n",
    "an equals sign in a command": b'Match host other exec "test 1 = 1"\n  HostName {absent}\n'
    b"Host box\n  HostName {box}\n",
    "a token in a command": b'Match host box exec "test %h = box"\n  HostName {box}\n',
    "a command that is not reached": b'Match originalhost other exec "touch {marker}"\n  HostName {absent}\n'
    b"Host box\n  HostName {box}\n",
    "the final name": b"Host box\n  HostName {inner}\nMatch final host {inner}\n  ProxyJump research@{box}\n",
    "the canonical name": b"CanonicalizeHostname always\nCanonicalDomains lan\nHost box\n  HostName {inner}\n"
    b"Match canonical host {inner}\n  ProxyJump research@{box}\n",
    "a proxy with a redirection": b"Host box\n  HostName {box}\n  ProxyCommand {home}/bin/nc %h %p 2>/dev/null\n",
    "a proxy in the home folder": b"Host box\n  HostName {box}\n  ProxyCommand ~/bin/proxy %h %p\n",
    "a proxy with a variable": b"Host box\n  HostName {box}\n  ProxyCommand $HOME/bin/nc %h %p\n",
    "a proxy with a substitution": b'Host box\n  HostName {box}\n  ProxyCommand {home}/bin/nc "$(echo %h)" %p\n',
    "a proxy after another command": b"Host box\n  HostName {box}\n  ProxyCommand sleep 0; {home}/bin/nc %h %p\n",
    "a proxy that prints": b"Host box\n  HostName {box}\n"
    b"  ProxyCommand sh -c 'echo hello >&2; exec {home}/bin/nc %h %p'\n",
    "a proxy of a jump host": b"Host box\n  HostName {inner}\n  ProxyJump gw\n"
    b"Host gw\n  HostName {box}\n  ProxyCommand {home}/bin/nc %h %p 2>/dev/null\n  ServerAliveInterval 1m\n",
    "ssh as the proxy": b"Host box\n  HostName {inner}\n  ProxyCommand ssh -q -W %h:%p research@{box} 2>/dev/null\n",
    "no proxy": b"Host box\n  HostName {box}\n  ProxyCommand none\n  ProxyJump none\nHost *\n  ProxyCommand false\n",
    "two jump hosts": b"Host box\n  HostName {innermost}\n  ProxyJump research@{box}:22,research@{inner}\n",
    "a jump host as a URI": b"Host box\n  HostName {inner}\n  ProxyJump ssh://research@{box}:22\n",
    "a key of a jump host": b"Host box\n  HostName {inner}\n  ProxyJump gw\n"
    b'Host gw\n  HostName {box}\n  IdentityFile "~/.ssh/my key"\n  IdentitiesOnly yes\n',
    "a key with a space": b'Host box\n  HostName {box}\n  IdentityFile "~/.ssh/my key"\n  IdentitiesOnly yes\n',
    "a key with variables and tokens": b"Host box\n  HostName {box}\n  IdentityFile ${HOME}/.ssh/id_%n_%k_%u\n",
    "only a missing key": b"Host box\n  HostName {box}\n  IdentityFile ~/.ssh/absent\n",
    "no key": b"Host box\n  HostName {box}\n  IdentityFile none\n",
    "a key that is public": b"Host box\n  HostName {box}\n  IdentityFile ~/.ssh/id_ed25519.pub\n",
    "no public keys": b"Host box\n  HostName {box}\n  PubkeyAuthentication no\n",
    "only passwords": b"Host box\n  HostName {box}\n  PreferredAuthentications password\n",
    "known hosts with tokens": b"Host box\n  HostName {box}\n"
    b"  UserKnownHostsFile ~/.ssh/absent_%h ~/.ssh/known_hosts\n",
    "no known hosts": b"Host box\n  HostName {box}\n  UserKnownHostsFile ~/.ssh/absent\n",
    "known hosts with a space": b'Host box\n  HostName {box}\n  UserKnownHostsFile "~/.ssh/my known hosts"\n',
    "known hosts from a command": b"Host box\n  HostName {box}\n  UserKnownHostsFile /dev/null\n"
    b'  KnownHostsCommand /bin/sh -c "grep -F %H {home}/.ssh/known_hosts"\n',
    "an unknown option": b"Host box\n  HostName {box}\n  UseKeychain yes\n",
    "algorithms": b"Host box\n  HostName {box}\n  Ciphers +aes128-cbc\n  HostKeyAlgorithms +ssh-rsa\n"
    b"  PubkeyAcceptedAlgorithms +ssh-rsa\n  MACs -hmac-sha1*\n  KexAlgorithms ^curve25519-sha256\n",
    "a family and an address": b"Host box\n  HostName {box}\n  AddressFamily inet\n  BindAddress {client}\n",
    "the wrong family": b"Host box\n  HostName {box}\n  AddressFamily inet6\n",
    "a name from tokens": b"Host 6\n  HostName {box_prefix}%h\n",
    "an included file": b"Host box\n  Include inc_box\n",
    "included files": b'Include "inc dir/*.conf"\n',
}
"""By name: a configuration. The host is `box`; `Host *` with `User research` follows."""

ACCOUNTS = Path("/etc/passwd")
"""The file in which `ssh` looks up the home folder."""

UNLIKE_SSH = {"kex-only-sntrup": "none of the algorithms"}
"""Forms with which only `ssh` logs in, and what the workbench says."""


class Places(NamedTuple):
    """The home folder of the client, and the machines: inner is reached only from box, innermost only from inner."""

    home: Path
    box: Machine
    inner: str
    innermost: str


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """Three machines, and a client that knows their host keys."""
    from tests.machines import make_key

    home = tmp_path_factory.mktemp("client")
    ssh = home / ".ssh"
    ssh.mkdir(mode=0o700)
    key = make_key(ssh / "id_ed25519")
    with (
        open_folder() as first,
        open_folder() as second,
        open_folder() as third,
        machine("box", first, key) as box,
        machine("inner", second, key) as inner,
        machine("innermost", third, key) as innermost,
    ):
        found = Places(home, box, _connect(box, inner, 1), _connect(inner, innermost, 2))
        for host in (inner, innermost):
            ip("link", "del", host.link)
        lines = [box.known_hosts_line]
        for address, host in ((found.inner, inner), (found.innermost, innermost)):
            lines.append(host.known_hosts_line.replace(host.address, address))
        (ssh / "known_hosts").write_text("".join(lines))
        _prepare(found)
        yield found


def _connect(here: Machine, there: Machine, number: int) -> str:
    """Connect two machines directly, and return the address of the second."""
    words = ["link", "add", f"to{number}", "netns", str(here.pid), "type", "veth", "peer", "name", f"from{number}"]
    ip(*words, "netns", str(there.pid))
    network = f"192.168.20{number}"
    for host, name, last in ((here, f"to{number}", 1), (there, f"from{number}", 2)):
        host.run(["ip", "addr", "add", f"{network}.{last}/24", "dev", name])
        host.run(["ip", "link", "set", name, "up"])
    return f"{network}.2"


def _prepare(places: Places) -> None:
    """Create the files that the forms name."""
    ssh, programs = places.home / ".ssh", places.home / "bin"
    for name in ("my key", "id_box_box_root"):
        shutil.copy(ssh / "id_ed25519", ssh / name)
    shutil.copy(ssh / "known_hosts", ssh / "my known hosts")
    (ssh / "inc_box").write_text(f"HostName {places.box.address}\n")
    (ssh / "inc dir").mkdir()
    (ssh / "inc dir/a.conf").write_text(f"Host box\n  HostName {places.box.address}\n")
    programs.mkdir()
    (programs / "nc").write_text(f"#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S -c '{RELAY}' \"$@\"\n")
    (programs / "proxy").write_text('#!/bin/sh\nexec "$HOME/bin/nc" "$@"\n')
    for name in ("nc", "proxy"):
        (programs / name).chmod(0o755)


def results_of(places: Places, forms: Mapping[str, bytes]) -> dict[str, Any]:
    """Log in with each form, with both programs."""
    accounts = places.home.parent / "passwd"
    accounts.write_text(re.sub("(?m)^(root:.*:)[^:]*(:[^:]*)$", rf"\g<1>{places.home}\g<2>", ACCOUNTS.read_text()))
    prefix, _, last = places.box.address.rpartition(".")
    values = {
        "box": places.box.address, "inner": places.inner, "innermost": places.innermost, "absent": "192.0.2.1",
        "marker": f"{places.home}/marker", "client": places.box.gateway, "home": str(places.home),
        "box_prefix": f"{prefix}.",
    }  # fmt: skip
    jobs = []
    for name, form in forms.items():
        host = last if b"%h\n" in form and b"Host 6\n" in form else "box"
        text = form.replace(b"Host 6\n", b"Host %s\n" % last.encode())
        text = re.sub(rb"(?<!\$)\{(\w+)\}", lambda found: values[found[1].decode()].encode(), text)
        jobs.append((name, host, base64.b64encode(text + b"\nHost *\n  User research\n").decode()))
    script = f'mount --bind "{accounts}" {ACCOUNTS} && exec "$@"'
    words = [require("unshare"), "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    done = subprocess.run(
        [*words, sys.executable, "-m", "tests.targets.ssh_forms"],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        env={**{k: v for k, v in os.environ.items() if k != "SSH_AUTH_SOCK"}, "HOME": str(places.home)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def differences(results: Mapping[str, Any]) -> list[str]:
    """Return a line for each form with different results."""
    return [
        f"{name}: ssh {found['ssh']}, workbench {found['workbench']}"
        for name, found in results.items()
        if found["ssh"][0] != found["workbench"][0] and UNLIKE_SSH.get(name, "-") not in found["workbench"][1]
    ]


@pytest.mark.timeout(900)
def test_forms_lead_to_the_same_machine_as_with_ssh(places: Places) -> None:
    results = results_of(places, FORMS)
    assert differences(results) == []
    reached = [name for name, found in results.items() if found["ssh"][0] != FAILED]
    assert len(reached) > 30
    assert not (places.home / "marker").exists()


@pytest.mark.timeout(1800)
def test_more_forms_lead_to_the_same_machine_as_with_ssh(places: Places) -> None:
    path = os.environ.get(MORE_FORMS, "")
    if not path:
        pytest.skip(f"{MORE_FORMS} does not name a file with more forms")
    assert differences(results_of(places, runpy.run_path(path)["FORMS"])) == []


def test_failed_proxy_is_the_reason(places: Places) -> None:
    forms = {
        "message": b"Host box\n  ProxyCommand sh -c 'echo starting >&2; echo no route to the moon >&2; exit 3'\n",
        "code": b"Host box\n  ProxyCommand exit 3\n",
        "missing": b"Host box\n  ProxyCommand /nowhere/proxy %h\n",
    }
    results = results_of(places, forms)
    said = {name: found["workbench"][1] for name, found in results.items()}
    assert "the ProxyCommand failed: no route to the moon" in said["message"]
    assert "/nowhere/proxy" in said["missing"]
    assert "the ProxyCommand failed: " in said["code"]
