"""The questions of a server during a login, such as for a second factor.

The login waits while a question is open. Every request of the login then fails with the question as a SecretNeeded; a
client that can ask the user gives the answer like a secret, and repeats its request. If the user does not answer, the
login fails, and the server is not asked again until a user is present: each attempt may send a message to a phone, and
failed attempts can lock an account.
"""

from __future__ import annotations

import asyncio
import itertools

from tui_workbench.core.plaintext import visible
from tui_workbench.targets.hosts.host import SecretNeeded
from tui_workbench.targets.ssh.ssh_wire import Login

ANSWER_SECONDS = 110.0
"""Time limit in seconds for an answer. sshd ends a login after 120 seconds (LoginGraceTime)."""

PREFIX = "answer "
"""The references of answers begin with this, so that they differ from those of secrets."""

_LONGEST_PROMPT = 300

_numbers = itertools.count(1)


class Questions:
    """The open question of one login, if any."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.were_answered = False  # at least one login needed an answer
        self.is_unattended = False  # the user did not answer the last question
        self._reference = ""
        self._prompt = ""
        self._is_visible = False
        self._answer: asyncio.Future[str] | None = None

    async def ask(self, prompt: str, *, is_visible: bool) -> str | None:
        """Return the user's answer, or None without an answer. The prompt comes from the server."""
        self._reference = f"{PREFIX}{next(_numbers)}"
        self._prompt = visible(" ".join(prompt.split()).rstrip(": "))[:_LONGEST_PROMPT] or "Answer"
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

    def error(self, login: Login, command: str) -> SecretNeeded:
        """Return the error for a request while a question is open, or after a question without an answer.

        `command` is the command that asks the user.
        """
        return SecretNeeded(
            f"{login.label}: the server asks for: {self._prompt}",
            reference=self._reference,
            prompt=f"{self._prompt} ({login.username or 'login'} on {login.address})",
            remedy=f"Log in: {command}. In the screens, check the target.",
            host_verified=True,
            is_question=True,
            is_visible=self._is_visible,
        )
