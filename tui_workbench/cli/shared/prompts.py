"""Ask for secrets, host keys and confirmation on the terminal.

Questions about logins use the terminal itself, because stdin may be a file or a pipe. Without a terminal, nothing is
asked, and the error of the login is raised. A confirmation is read from stdin.
"""

from __future__ import annotations

import contextlib
import getpass
import sys
from collections.abc import Callable, Iterable
from typing import IO, TYPE_CHECKING

from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.plaintext import visible
from tui_workbench.targets.hosts.host import HostKeyRefused, SecretNeeded
from tui_workbench.targets.hosts.secrets import SECRET_ATTEMPTS
from tui_workbench.targets.ssh.login_secrets import ssh_host_of, store_typed

if TYPE_CHECKING:
    from tui_workbench.targets.ssh.ssh_host import SshHost

TERMINAL = "/dev/tty"


def can_ask() -> bool:
    try:
        # The file exists on every system; only opening it shows whether this process has a terminal.
        with open(TERMINAL, "rb"):
            return True
    except OSError:
        return False


def require_terminal() -> None:
    if not can_ask():
        raise UsageError(
            "cannot ask for the secret: not a terminal",
            remedy="Run the command in a terminal. Or pipe a password into it, with `--password-stdin` instead of "
            "`--password`. For a key with a passphrase, run `ssh-add FILE`, and omit `--private-key-file` and "
            "`--private-key-passphrase`.",
        )


def confirm(question: str) -> bool:
    """Ask on stderr and read the answer from stdin. Return True for `y` or `yes`."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def confirm_list(lines: Iterable[str], question: str, remedy: str) -> bool:
    """Show lines and ask a question. Return True if the user agrees. Raises UsageError if stdin is not a terminal."""
    if not sys.stdin.isatty():
        raise UsageError("cannot ask for confirmation: not a terminal", remedy=remedy)
    sys.stderr.write("".join(f"{visible(line.rstrip())}\n" for line in lines))
    return confirm(question)


def ask_secret(prompt: str) -> str:
    """Read a secret without echo. Raises UsageError without a terminal or for an empty secret."""
    require_terminal()
    secret = ""
    try:
        with contextlib.suppress(EOFError):
            secret = getpass.getpass(f"{visible(prompt)}: ")
    finally:
        if not secret:  # the cursor is still on the line of the prompt
            sys.stderr.write("\n")
    if not secret:
        raise UsageError("no secret was entered", remedy="Run the command again and enter the secret.")
    return secret


def ask_text(prompt: str) -> str:
    """Read a line with echo. Raises UsageError without a terminal."""
    require_terminal()
    with open(TERMINAL, "r+b", buffering=0) as terminal:
        terminal.write(f"{visible(prompt)}: ".encode())
        return _line_of(terminal).decode("utf-8", "replace")


def _line_of(terminal: IO[bytes]) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (more := terminal.read(1)):
        line += more
    return line.strip()


def secret_from_stdin(option: str = "--password-stdin") -> str:
    """Read a secret from the first line of stdin. Raises UsageError if this line is empty or missing."""
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise UsageError(
            f"{option}: the first line of stdin is empty", remedy="Pipe the secret into the command, in the first line."
        )
    return line


def warn_of_visible_secret(option: str) -> None:
    sys.stderr.write(
        f"workbench-tui: warning: other users of this machine can see a secret on the command line, and the shell "
        f"history keeps it. Use {option} without a value to be asked for the secret.\n"
    )


def is_accepted(error: HostKeyRefused) -> bool:
    """Ask the user to trust an unknown host key. Return False for a refused or changed key, or without a terminal."""
    if error.known or not error.presented or not can_ask():
        return False
    with open(TERMINAL, "r+b", buffering=0) as terminal:
        question = f"{error.message}.\nAccept this host key? Type yes or the fingerprint: "
        terminal.write("\n".join(visible(line) for line in question.split("\n")).encode())
        answer = _line_of(terminal)
    return answer.decode("utf-8", "replace") in ("yes", error.presented)


def reach(
    attempt: Callable[[], object], accept: Callable[[str], None], give: Callable[[SecretNeeded, str], None]
) -> None:
    """Repeat a login, asking about unknown host keys and missing secrets, until it succeeds.

    Without a terminal, for a changed or refused key, or after too many wrong secrets, the error of the login is raised.
    Raises UsageError if the user enters no secret.
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
            if error.is_question:  # the server limits their number
                give(error, ask_secret(error.prompt) if not error.is_visible else ask_text(error.prompt))
                continue
            if asked:
                sys.stderr.write(f"workbench-tui: {visible(error.message)}\n")
            asked += 1
            give(error, ask_secret(error.prompt))


def ensure_login(target: ComputeTarget) -> None:
    """Log in to the machine of a target and store the secrets that the user typed. Raises TargetUnreachable.

    Call this before a run, which cannot ask questions. Without a terminal, do nothing; the run reports the error.
    """
    if target.uses_ssh and can_ask():
        host = ssh_host_of(target)
        store_typed(host, log_in(host))


def log_in(host: SshHost) -> dict[str, str]:
    """Log in to a machine, asking the user if necessary. Return the typed secrets, keyed by their references."""
    typed: dict[str, str] = {}

    # Answers to questions, such as one-time codes, are not stored.
    def give(error: SecretNeeded, secret: str) -> None:
        host.give_secret(error.reference, secret)
        if not error.is_question:
            typed[error.reference] = secret

    if can_ask():
        host.attend()
    reach(lambda: host.run(["true"]), host.accept_host_key, give)
    return typed
