"""The questions of a server during a login, such as for a second factor.

The login waits while a question is open. Every request of the login then fails with the question as a SecretNeeded; a
client that can ask the user gives the answer like a secret, and repeats its request. If a login fails after a question,
the server is not asked again until a user is present: each attempt may send a message to a phone, and failed attempts
can lock an account.
"""

from __future__ import annotations

import asyncio
import itertools

from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.plaintext import visible
from tui_workbench.targets.hosts.host import LoginRefused, SecretNeeded
from tui_workbench.targets.ssh.ssh_wire import Login

ANSWER_SECONDS = 110.0
"""Time limit in seconds for an answer. sshd ends a login after 120 seconds (LoginGraceTime)."""

PREFIX = "answer "
"""The references of answers begin with this, so that they differ from those of secrets."""

LONGEST_PROMPT = 300
"""Maximum number of characters of a prompt that are shown. A longer prompt is shortened in the middle."""

_numbers = itertools.count(1)


class Questions:
    """The open question of one login, if any."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.were_answered = False  # at least one login needed an answer
        self.is_unattended = False  # the user did not answer the last question
        self.failure: LoginRefused | None = None  # the reason why a login failed after a question
        self.were_asked = False  # the last login asked a question
        self._reference = ""
        self._prompt = ""
        self._account = ""
        self._jump_host = ""
        self._is_visible = False
        self._answer: asyncio.Future[str] | None = None

    async def ask(self, prompt: str, *, is_visible: bool, account: str, jump_host: str) -> str | None:
        """Return the user's answer, or None without an answer. The prompt comes from the server.

        `account` is the account that logs in, `research on gpubox`. `jump_host` is the jump host that asks, or "".
        """
        self.were_asked = True
        self._reference = f"{PREFIX}{next(_numbers)}"
        self._prompt = _shown(prompt) or "Answer"
        self._account, self._jump_host = account, jump_host
        self._is_visible = is_visible
        self._answer = asyncio.get_running_loop().create_future()
        self.is_open.set()
        try:
            answer = await asyncio.wait_for(self._answer, ANSWER_SECONDS)
        except TimeoutError:
            self.is_unattended = True
            return None
        finally:
            self._answer = None
            self.is_open.clear()
        self.were_answered = True
        return answer

    def answer(self, reference: str, value: str) -> bool:
        """Answer a question; return False if the reference is that of a secret. A late answer has no effect."""
        if not reference.startswith(PREFIX):
            return False
        self.is_unattended = False
        if reference == self._reference and self._answer is not None and not self._answer.done():
            self._answer.set_result(value)
            self.is_open.clear()
        return True

    def attend(self) -> None:
        """Let the next request log in again: a user is present."""
        self.is_unattended, self.failure = False, None

    def login_failed(self, error: TargetUnreachable, command: str) -> None:
        """Keep the reason for all requests before the next login: they have ended when the question was asked.

        `command` is as in `error`. A question without an answer is kept as the question.
        """
        if not self.were_asked or self.is_unattended:
            return
        is_refused = isinstance(error, LoginRefused)
        remedy = error.remedy if is_refused else f"Log in again: {command}. In the screens, check the target."
        self.failure = LoginRefused(error.message, remedy=remedy)

    def error(self, login: Login, command: str) -> SecretNeeded:
        """Return the error for a request while a question is open, or after a question without an answer.

        `command` is the command that asks the user.
        """
        machine = f"{login.label}, jump host {self._jump_host}" if self._jump_host else login.label
        return SecretNeeded(
            f"{machine}: the server asks for: {self._prompt}",
            reference=self._reference,
            # The account first, so that a prompt cannot pretend to be that of another machine.
            prompt=f"{self._account}: {self._prompt}",
            remedy=f"Log in: {command}. In the screens, check the target.",
            host_verified=True,
            is_question=True,
            is_visible=self._is_visible,
        )


def _shown(prompt: str) -> str:
    """Return an untrusted prompt as one line. The end of a long prompt is the question itself."""
    text = visible(" ".join(prompt.split()).rstrip(": "))
    half = LONGEST_PROMPT // 2
    return text if len(text) <= LONGEST_PROMPT else f"{text[: half - 1]} … {text[2 - half :]}"
