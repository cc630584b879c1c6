"""Questions on the terminal: a secret without echo, and whether a host key is the right one.

The terminal itself is asked, never stdin, which may be a file or a pipe. Where there is no terminal nobody is asked,
and the error that led here stands as it is.
"""

from __future__ import annotations

import contextlib
import getpass
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.plaintext import visible
from tui_workbench.targets.base.secrets import KeyringResult, SecretStore, is_reference
from tui_workbench.targets.hosts.host import HostKeyRefused, SecretNeeded
from tui_workbench.targets.hosts.host_for import ssh_host_of

if TYPE_CHECKING:
    from tui_workbench.targets.ssh.ssh_host import SshHost

TERMINAL = "/dev/tty"

SECRET_ATTEMPTS = 3
"""As many as `ssh` gives."""


def can_ask() -> bool:
    """True when there is a terminal to ask on."""
    try:
        with open(TERMINAL, "rb"):
            return True
    except OSError:
        return False


def require_terminal() -> None:
    """Raises UsageError when there is nobody to ask for a secret."""
    if not can_ask():
        raise UsageError("there is no terminal to ask for the secret on", remedy="Give it with --password-stdin.")


def says_yes(question: str) -> bool:
    """Ask on stderr, and read the answer from stdin."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def ask_secret(prompt: str) -> str:
    """A secret, typed without echo. Raises UsageError when there is no terminal, or nothing was typed."""
    require_terminal()
    secret = ""
    try:
        with contextlib.suppress(EOFError):
            secret = getpass.getpass(f"{visible(prompt)}: ")
    finally:
        if not secret:  # nobody has ended the line
            sys.stderr.write("\n")
    if not secret:
        raise UsageError("no secret was given", remedy="Try again.")
    return secret


def secret_from_stdin() -> str:
    """The first line of stdin. Raises UsageError when there is none."""
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise UsageError("--password-stdin, and nothing came on stdin", remedy="Pipe the password into it.")
    return line


def warn_of_visible_secret(option: str) -> None:
    """Say that what stands on a command line is no secret."""
    sys.stderr.write(
        f"workbench-tui: warning: a secret on the command line is visible to everybody on this machine and stays in "
        f"the shell's history. {option} without a value asks for it.\n"
    )


def is_accepted(error: HostKeyRefused) -> bool:
    """Ask whether the host key is the right one; false where nobody can be asked, or the key changed."""
    if error.known or not error.presented or not can_ask():
        return False
    with open(TERMINAL, "r+b", buffering=0) as terminal:
        question = f"{error.message}.\nIs this the machine's key? Type yes, or its fingerprint: "
        terminal.write("\n".join(visible(line) for line in question.split("\n")).encode())
        answer = b""
        while not answer.endswith(b"\n") and (more := terminal.read(1)):
            answer += more
    return answer.strip().decode("utf-8", "replace") in ("yes", error.presented)


def reach(
    attempt: Callable[[], object], accept: Callable[[str], None], give: Callable[[SecretNeeded, str], None]
) -> None:
    """Make an attempt to log in until it works, with what the person says to a new host key or a missing secret.

    Raises what the attempt raises, when nobody can be asked or the answer is no answer.
    """
    asked = 0
    while True:
        try:
            attempt()
            return
        except HostKeyRefused as error:
            if not is_accepted(error):
                raise
            accept(error.presented)
        except SecretNeeded as error:
            if not can_ask() or asked == SECRET_ATTEMPTS:
                raise
            if asked:
                sys.stderr.write(f"workbench-tui: {visible(error.message)}\n")
            asked += 1
            give(error, ask_secret(error.prompt))


def settle_login(target: ComputeTarget) -> None:
    """Before a run on another machine begins, ask for what nobody could be asked for once it has.

    Where there is no terminal nothing happens: the run then says so. Raises TargetUnreachable.
    """
    if target.kind.is_remote and can_ask():
        keep(log_in(ssh_host_of(target)))


def keep(typed: dict[str, str]) -> list[KeyringResult]:
    """Put what was typed into the keyring, by reference; what has none is for this time only."""
    store = SecretStore()
    return [store.put(reference, secret) for reference, secret in typed.items() if is_reference(reference)]


def log_in(host: SshHost) -> dict[str, str]:
    """Log in on a machine, asking where that is needed; the secrets that were typed, by reference."""
    typed: dict[str, str] = {}

    def give(error: SecretNeeded, secret: str) -> None:
        host.give_secret(error.reference, secret)
        typed[error.reference] = secret

    reach(lambda: host.run(["true"]), host.accept_host_key, give)
    return typed
