"""The effective settings of a host in the user's SSH configuration, as `ssh` itself reads them.

`ssh -G` prints the settings after every `Host`, `Match` and `Include`, and runs the commands of `Match exec`, as each
login with `ssh` does.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pwd
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core import processes
from tui_workbench.targets.hosts.host import ConnectionLost, LoginRefused
from tui_workbench.targets.ssh.ssh_wire import AGENT_VARIABLE, environment_with

SECONDS = 20.0
"""Time limit in seconds for `ssh -G`, which may look up names and run commands."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Settings:
    """The settings of one host, by the lower-case names of ssh_config(5), and the host as the caller named it."""

    def __init__(self, lines: Sequence[str], host: str, agent: str) -> None:
        self._agent = agent
        self._host = host
        self._values: dict[str, list[str]] = {}
        for line in lines:
            name, _, value = line.partition(" ")
            self._values.setdefault(name.lower(), []).append(value)

    def all(self, name: str) -> list[str]:
        """Return the values of a setting that may be repeated, without `none`."""
        return [value for value in self._values.get(name, []) if value and value.lower() != "none"]

    def get(self, name: str) -> str:
        """Return the value of a setting; "" if it is missing or `none`."""
        return next(iter(self.all(name)), "")

    def number(self, name: str) -> int:
        """Return a number; 0 if it is missing or `none`."""
        return int(text) if (text := self.get(name)).isdecimal() else 0

    def is_off(self, name: str) -> bool:
        return self.get(name).lower() in ("no", "false")

    def differs(self, name: str) -> bool:
        """Return True if the setting does not have the default value of the installed `ssh`."""
        return self._values.get(name) != default_settings()._values.get(name)

    def path(self, text: str) -> str:
        """Return the path that a setting means: with the home folder, variables and tokens such as `%h`."""
        text = os.path.expanduser(text)
        text = _VARIABLE.sub(lambda match: os.environ.get(match[1], match[0]), text)
        return self.with_tokens(text, self._tokens())

    def paths(self, name: str) -> list[str]:
        """Return a list of paths that `ssh -G` prints on one line without quotes."""
        words = self.get(name).split()
        paths: list[str] = []
        while words:
            # A path may contain spaces: take as many words as an existing file has.
            counts = range(len(words), 1, -1)
            count = next((n for n in counts if os.path.exists(self.path(" ".join(words[:n])))), 1)
            paths.append(self.path(" ".join(words[:count])))
            del words[:count]
        return paths

    @property
    def agent(self) -> str:
        """The socket of the SSH agent, or ""."""
        configured = self._values.get("identityagent", [""])[0]
        if configured in ("", AGENT_VARIABLE, f"${AGENT_VARIABLE}"):
            return self._agent
        if configured.lower() == "none":
            return ""
        return os.environ.get(configured[1:], "") if configured.startswith("$") else self.path(configured)

    def proxy_command(self) -> str:
        """Return the line that the user's shell executes to connect to the host, or ""."""
        tokens = {name: value for name, value in self._tokens().items() if name in "%hnprk"}
        command = self.get("proxycommand")
        return self.with_tokens(f"exec {command}", tokens) if command else ""

    def known_hosts_command(self) -> str:
        """Return the command that prints lines of known_hosts, or "". It runs before the host has shown a key."""
        names = {"H": self.get("hostkeyalias") or self.get("hostname"), "I": "HOSTNAME"}
        return self.with_tokens(
            self.get("knownhostscommand"), {**self._tokens(), **names, "t": "NONE", "K": "NONE", "f": "NONE"}
        )

    @staticmethod
    def with_tokens(text: str, tokens: Mapping[str, str]) -> str:
        """Replace each `%x` by its value; unknown tokens stay."""
        return re.sub("%(.)", lambda match: tokens.get(match[1], match[0]), text)

    def _tokens(self) -> dict[str, str]:
        """Return the values of the tokens of ssh_config(5)."""
        local, host, port, user = socket.gethostname(), self.get("hostname"), self.get("port"), self.get("user")
        jump, account = self.get("proxyjump"), _account()
        connection = hashlib.sha1(f"{local}{host}{port}{user}{jump}".encode()).hexdigest()
        return {
            "%": "%", "C": connection, "d": os.path.expanduser("~"), "h": host, "i": str(os.getuid()), "j": jump,
            "k": self.get("hostkeyalias") or self._host, "L": local.partition(".")[0], "l": local, "n": self._host,
            "p": port, "r": user, "u": account.pw_name if account else "",
        }  # fmt: skip


def read_settings(host: str, port: int, username: str, agent: str) -> Settings | None:
    """Ask `ssh` for the settings of a host; None if this machine has no `ssh` that tells them.

    The caller has checked the host and the user name. Raises LoginRefused or ConnectionLost without a label.
    """
    if not processes.has_program("ssh") or _account() is None:
        return None
    options = [*(("-p", str(port)) if port else ()), *(("-l", username) if username else ())]
    done = _ask([*_own_configuration(), *options, "--", host], agent)
    if done.code == 0:
        return Settings(done.lines, host, agent)
    if "usage:" in done.complaint:
        return None  # older than OpenSSH 6.8
    if "resolve" in done.complaint:
        raise ConnectionLost(done.complaint, remedy="Check the network connection.", failed_check="name")
    remedy = "Correct the SSH configuration. `ssh -G` with the same host shows the error."
    raise LoginRefused(f"the SSH configuration is invalid: {done.complaint}", remedy=remedy)


@functools.cache
def default_settings() -> Settings:
    """Return the settings of a host without any configuration."""
    return Settings(_ask(["-F", "/dev/null", "--", "localhost"], "").lines, "localhost", "")


class _Answer(NamedTuple):
    code: int
    lines: list[str]
    complaint: str  # the first line on stderr


def _ask(words: Sequence[str], agent: str) -> _Answer:
    try:
        # Commands of `Match exec` get the agent of the client, not that of this process.
        environment = environment_with(agent)
        done = processes.run(["ssh", "-G", *words], environment=environment, timeout=SECONDS, new_session=True)
    except subprocess.TimeoutExpired:
        remedy = "Check the commands of `Match exec` in the SSH configuration, and the name server of this machine."
        raise ConnectionLost(f"`ssh -G` took longer than {SECONDS:g} s", remedy=remedy, failed_check="name") from None
    except OSError as error:
        raise ConnectionLost(f"cannot run `ssh -G`: {error.strerror}", remedy="Try again.") from error
    complaints = done.stderr.decode("utf-8", "replace").strip().splitlines() or [""]
    lines = done.stdout.decode("utf-8", "surrogateescape").splitlines()
    return _Answer(done.returncode, lines, complaints[0].strip().rstrip("."))


def _own_configuration() -> list[str]:
    """Return the options of `ssh` that select the configuration in $HOME.

    `ssh` looks in the home folder of the account. The workbench uses $HOME everywhere, and so does this.
    """
    home, account = os.path.realpath(os.path.expanduser("~")), _account()
    if account is not None and home == os.path.realpath(account.pw_dir):
        return []
    path = os.path.join(home, ".ssh", "config")
    return ["-F", path if os.access(path, os.R_OK) else "/dev/null"]


def _account() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(os.getuid())
    except KeyError:
        return None  # `ssh` refuses to work for a user without an account
