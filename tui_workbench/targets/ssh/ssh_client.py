"""The client of one connection: it checks the host key as `ssh` does."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Sequence
from typing import Any

from tui_workbench.targets.ssh.known_hosts import (
    CERTIFICATE_AUTHORITY,
    DEFAULT_PORT,
    REVOKED,
    HostKey,
    fingerprint,
    shown_name,
)
from tui_workbench.targets.ssh.library import asyncssh
from tui_workbench.targets.ssh.proxy_command import ProxyCommand
from tui_workbench.targets.ssh.questions import ANSWER_SECONDS
from tui_workbench.targets.ssh.ssh_config import Hop, import_key, import_keys
from tui_workbench.targets.ssh.ssh_secrets import Secrets, host_key_of, is_revoked

MOST_ROUNDS = 3
"""Maximum number of times that the server may ask all its questions, as NumberOfPasswordPrompts of `ssh`."""

MOST_PROMPTS = 10
"""Maximum number of prompts in one question."""

_PASSWORD = re.compile(r"^(?!.*(?:one.time|otp|token|code)).*pass(?:word|wort)\b", re.IGNORECASE | re.DOTALL)
"""Matches prompts for the password of the account, and not those for one-time passwords."""


class Client(asyncssh.SSHClient):
    """The client of one hop. It checks the host key as `ssh` does, and records the key.

    With `plain_keys_only`, it ignores certificates. If the host uses a port other than 22, it also ignores the lines of
    known_hosts without a port.
    """

    def __init__(
        self,
        hop: Hop,
        secrets: Secrets,
        on_lost: Callable[[Exception | None], None],
        *,
        password: str,
        jump_host: str = "",
        asks: bool = True,
        plain_keys_only: bool = False,
    ) -> None:
        """`password` is the reference of the password to send, or "". It is only sent to the host key it is for.

        `jump_host` is the name of the hop if it is a jump host. With `asks`, the user may be asked the questions of the
        server.
        """
        self._hop = hop
        self._secrets = secrets
        self._on_lost = on_lost
        self._password = password
        self._jump_host = jump_host
        self._username = ""
        self._connection: asyncssh.SSHClientConnection | None = None
        self.is_for_another_key = False
        self._asks = asks
        self._rounds = 0
        self._has_sent_password = False
        self._password_prompt = ""
        self.limit: asyncio.Timeout | None = None
        self.has_asked = False  # the user has answered at least one question
        self.key_was_accepted = False
        self.offers_password = False  # it refused the keys, but asks for a password
        self._plain_keys_only = plain_keys_only
        self._has_more = False  # certificate authorities, or keys in lines without a port
        self.is_open = False
        self.loss: Exception | None = None  # the reason why the connection has ended
        self.name, self.port = hop.host, hop.port or DEFAULT_PORT
        self.proxy: ProxyCommand | None = None
        self.proxy_complaint = ""  # the last message of a ProxyCommand before the connection failed
        self.known: list[HostKey] = []
        self.presented = ""  # the fingerprint of an unknown key
        self.has_shown_key = False

    @property
    def recorded_name(self) -> str:
        """The host's name in known_hosts files."""
        return self._hop.host_key_alias or shown_name(self.name, self.port)

    def trusted_keys(self, host: str, _address: str, port: int | None) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the host's keys, certificate authorities and revoked keys in known_hosts."""
        self.name, self.port = host, port or DEFAULT_PORT
        exact, bare = self._hop.known.lookup(host, self.port, self._hop.host_key_alias)
        self.known = [entry for entry in exact if not entry.marker and import_key(entry)]
        plain = [entry for entry in bare if not entry.marker and not self.known]
        authorities = [entry for entry in (*exact, *bare) if entry.marker == CERTIFICATE_AUTHORITY]
        decided = {entry.blob for entry in exact}
        revoked = [
            entry
            for entry in (*exact, *bare)
            if entry.marker == REVOKED and (entry in exact or entry.blob not in decided)
        ]
        self._has_more = bool(plain or authorities)
        if self._plain_keys_only:
            plain, authorities = [], []
        return import_keys([*self.known, *plain]), import_keys(authorities), import_keys(revoked)

    def may_have_known_plain_key(self, error: Exception) -> bool:
        """Return True if another attempt that asks for a plain key may succeed.

        `ssh` likewise accepts a known key inside a certificate that no known authority has signed for this name.
        """
        if self._plain_keys_only or self.has_shown_key or is_revoked(error):
            return False
        return isinstance(error, asyncssh.HostKeyNotVerifiable) or self._has_more

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        blob = base64.b64encode(key.public_data).decode("ascii")
        self.presented, self.has_shown_key = fingerprint(blob), True
        # Accepting a fingerprint does not replace a known key.
        if self.known or self.presented not in self._secrets.accepted:
            return False
        self._hop.known.accept(self.recorded_name, f"{key.get_algorithm()} {blob}")
        return True

    @property
    def host_key(self) -> str:
        """The fingerprint of the verified host key; "" before the key exchange."""
        return host_key_of(self._connection) if self._connection is not None else ""

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self._connection = conn
        send = conn.send_userauth_request

        async def send_noted(method: bytes, *words: bytes, key: Any = None, trivial: bool = True) -> None:
            # The client signs only after the server has accepted the key. asyncssh does not report a partial success.
            self.key_was_accepted = self.key_was_accepted or key is not None
            await send(method, *words, key=key, trivial=trivial)

        setattr(conn, "send_userauth_request", send_noted)  # noqa: B010  (mypy refuses to assign to a method)

    def begin_auth(self, username: str) -> None:
        self.has_shown_key = True
        self._username = username
        if self._password and not self._secrets.is_for(self._password, self.host_key):
            self.is_for_another_key = True
            raise asyncssh.PermissionDenied("the stored password is for another host key")

    # -- passwords and questions

    def take_password(self) -> str | None:
        """Return the password of the login, but only once: wrong passwords can lock an account."""
        if not self._password or self._has_sent_password:
            return None
        self._has_sent_password = True
        return self._secrets.values[self._password]

    async def password_auth_requested(self) -> str | None:
        """Ask for the password if it is the second factor; otherwise only note that the server accepts one."""
        self.offers_password = not self._password and not self.key_was_accepted
        if not self.key_was_accepted or not self._asks or self._rounds == MOST_ROUNDS:
            return None
        self._rounds += 1
        return await self._ask("Password", is_visible=False)

    def kbdint_auth_requested(self) -> str | None:
        if not self._asks or self._rounds == MOST_ROUNDS:
            return None
        self._rounds += 1
        return ""

    async def kbdint_challenge_received(
        self, name: str, instructions: str, _lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """Answer the prompts of a server one after the other: with the password, or by asking the user."""
        answers = []
        introduction = " ".join(text for text in (name, instructions) if text)
        for text, is_visible in prompts[:MOST_PROMPTS]:
            answer = await self._answer(text, introduction, is_visible=is_visible)
            if answer is None:
                return None
            answers.append(answer)
            introduction = ""
        return answers

    async def _answer(self, text: str, introduction: str, *, is_visible: bool) -> str | None:
        is_password = not is_visible and bool(_PASSWORD.search(text)) and not self.key_was_accepted
        if is_password and self._has_sent_password and self._password_prompt in ("", text):
            return None  # the server asks again, so the password is wrong
        if is_password and self._password and not self._has_sent_password:
            self._password_prompt = text
            return self.take_password()
        if is_password and not self._password:
            self.offers_password = True
            return None
        return await self._ask(f"{introduction} {text}", is_visible=is_visible)

    async def _ask(self, prompt: str, *, is_visible: bool) -> str | None:
        """Ask the user, who gets all the time that the server gives."""
        if self.limit is not None:
            self.limit.reschedule(None)
        port = "" if self.port == DEFAULT_PORT else f":{self.port}"
        account = f"{self._username} on {'jump host ' if self._jump_host else ''}{self._hop.alias}{port}"
        answer = await self._secrets.questions.ask(
            prompt, is_visible=is_visible, account=account, jump_host=self._jump_host
        )
        self.has_asked = self.has_asked or answer is not None
        if self.limit is not None:
            self.limit.reschedule(asyncio.get_running_loop().time() + ANSWER_SECONDS)
        return answer

    def end_proxy(self) -> None:
        """End the ProxyCommand, if any."""
        if self.proxy is not None:
            self.proxy.close()
            self.proxy = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.loss = exc or asyncssh.ConnectionLost("the server closed the connection")
        if self.is_open:
            self.is_open = False
            self.end_proxy()
            self._on_lost(exc)
