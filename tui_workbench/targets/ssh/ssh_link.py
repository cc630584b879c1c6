"""The link: the process that holds the SSH connections of all logins, for all processes of the user.

`SshHost` starts `python -m tui_workbench.targets.ssh.ssh_link LISTENING_DESCRIPTOR`. A login exists in the link from
the first request that names it until some time after the last one, and the link ends with its last login. Runs continue
without it, and the next request starts a new link. Secrets stay in the memory of the link, apart for each login, and
are never written to a file.

One machine must not delay the others, so whatever may block runs in threads: name lookups, commands of the SSH
configuration, the decryption of keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tui_workbench.core import trace
from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.locks import held, open_lock
from tui_workbench.targets.hosts.host import ConnectionLost
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.connection_pool import ConnectionPool, lost
from tui_workbench.targets.ssh.library import asyncssh
from tui_workbench.targets.ssh.ssh_channel import Shell

IDLE_SECONDS = 600.0
"""Idle connections of a login are closed after this time. A login whose secrets are all in a keyring then ends."""

IDLE_WITH_SECRETS_SECONDS = 12 * 3600.0
"""A login with a secret that is not in a keyring ends after this time without requests."""

MOST_THREADS = 500
"""Maximum number of threads, which exist only while something blocks."""

MOST_DESCRIPTORS = 1 << 16
"""Maximum number of open files, if the system allows as many. Each program needs four."""

REQUEST_SECONDS = 10.0
"""Time limit for a client to send its request."""


class Link:
    """Serves requests on a listening socket until no login is left."""

    def __init__(self, listener: socket.socket, paths: wire.LinkPaths) -> None:
        self._listener = listener
        self._paths = paths
        self._logins: dict[wire.Login, _Served] = {}
        self._clients: set[asyncio.Task[None]] = set()
        self._may_be_over = asyncio.Event()

    async def run(self) -> None:
        """Answer requests until the last login is idle or closed."""
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(MOST_THREADS))
        self._listener.setblocking(False)
        loop.add_reader(self._listener, self._accept_clients)
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._may_be_over.wait(), IDLE_SECONDS / 10)
            self._may_be_over.clear()
            self._end_idle()
            if self._may_end():
                break
        loop.remove_reader(self._listener)
        self._listener.close()

    def _end_idle(self) -> None:
        for served in list(self._logins.values()):
            # A login that needed an answer of the user stays open as long as a typed secret is kept.
            if served.idle_seconds >= IDLE_SECONDS and not served.pool.secrets.questions.were_answered:
                served.pool.close()
            life = IDLE_WITH_SECRETS_SECONDS if served.pool.secrets.are_only_here else IDLE_SECONDS
            if served.idle_seconds >= life:
                self._end(served)

    def _end(self, served: _Served) -> None:
        """Close the connections of a login, forget its secrets, and cancel its requests except the current one."""
        if self._logins.get(served.login) is served:
            del self._logins[served.login]
        served.pool.end()
        for request in served.requests - {asyncio.current_task()}:
            request.cancel()

    def _may_end(self) -> bool:
        """Remove the socket and return True, unless a login or a client is left. Holds the lock for starting a link."""
        if self._logins or self._clients:
            return False
        if not os.path.exists(self._paths.socket):
            return True  # the socket was removed, so no client can connect
        with held(open_lock(self._paths.lock)):
            # A client may have connected since the last check. While the lock is held, no other link is started.
            self._accept_clients()
            if self._clients:
                return False
            with contextlib.suppress(OSError):
                os.unlink(self._paths.socket)
            return True

    def _accept_clients(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            task = asyncio.create_task(self._serve(_Client(connection)))
            self._clients.add(task)
            task.add_done_callback(self._client_left)

    def _client_left(self, task: asyncio.Task[None]) -> None:
        self._clients.discard(task)
        if not self._logins:
            self._may_be_over.set()

    async def _serve(self, client: _Client) -> None:
        try:
            client.reply({})
            request = await client.request()
            if request is None:
                return
            answering = self._start_answering(client, request)
            gone = asyncio.create_task(client.gone())
            await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
            for task in (answering, gone):
                task.cancel()
            # Wait for both: a task must not watch a descriptor that is closed and may be reused.
            await asyncio.wait({answering, gone})
            if not answering.cancelled():
                answering.result()
        finally:
            client.close()

    def _start_answering(self, client: _Client, request: dict[str, Any]) -> asyncio.Task[None]:
        login = request["login"]
        served = self._logins.get(login)
        if served is None:
            served = self._logins[login] = _Served(login, self._paths)
        if os.path.exists(agent := request.get("agent", "")):
            served.pool.secrets.agent = agent
        answering = asyncio.create_task(self._answer(client, served, request))
        served.add(answering)
        return answering

    async def _answer(self, client: _Client, served: _Served, request: dict[str, Any]) -> None:
        try:
            reply = await self._reply_to(client, served, request)
        except TargetUnreachable as error:
            reply = wire.error_to_message(error)
        except asyncssh.ChannelOpenError as error:
            reply = {"refused": error.reason, "forbidden": error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED}
        except Exception as error:  # a bug; the traceback goes to stderr
            failure = ConnectionLost(
                f"{served.login.label}: internal error of the process that holds the SSH connection: "
                f"{type(error).__name__}: {error}",
                remedy=f"Try again. The details are in {self._paths.errors}.",
            )
            client.reply(wire.error_to_message(failure))
            raise
        client.reply(reply)

    async def _reply_to(self, client: _Client, served: _Served, request: dict[str, Any]) -> dict[str, Any]:
        connection, secrets = served.pool, served.pool.secrets
        match request["op"]:
            case wire.EXEC:
                return await _exec(client, served, request["command"])
            case wire.FORWARD:
                # Shielded, so that a client that disconnects does not cancel the call half-way; see `_exec`.
                forwarding = asyncio.create_task(connection.forward(request["path"]))
                return {"socket": await asyncio.shield(forwarding)}
            case wire.FORWARD_PORT:
                address, port, here = request["address"], request["port"], request["here"]
                async with connection.forwarded_port(address, port, here) as (bound, wait_closed):
                    client.reply({"port": bound})
                    await wait_closed()
            case wire.STATUS:
                return {"state": connection.state, "since": connection.since, **connection.facts()}
            case wire.WAIT:
                await connection.wait()
            case wire.SECRET:
                kept, host_key = bool(request.get("kept")), str(request.get("host_key", ""))
                connection.add_secret(request["reference"], request["value"], kept=kept, host_key=host_key)
            case wire.NO_SECRET:
                secrets.unknown.add(request["reference"])
            case wire.ATTEND:
                secrets.questions.attend()
            case wire.ACCEPT:
                secrets.accepted.add(request["fingerprint"])
            case wire.CLOSE if request.get("keep_secrets"):
                connection.close()
            case wire.CLOSE:
                self._end(served)
            case unknown:
                raise KeyError(unknown)
        return {}


class _Served:
    """A login that the link serves: its connections and secrets, and the requests in progress."""

    def __init__(self, login: wire.Login, paths: wire.LinkPaths) -> None:
        self.login = login
        self.pool = ConnectionPool(login, paths)
        self.requests: set[asyncio.Task[None]] = set()
        self._used = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the end of the last request."""
        return 0.0 if self.requests else time.monotonic() - self._used

    def add(self, request: asyncio.Task[None]) -> None:
        self.requests.add(request)
        request.add_done_callback(self._over)

    def _over(self, request: asyncio.Task[None]) -> None:
        self.requests.discard(request)
        self._used = time.monotonic()


class _Client:
    """A client: its request and its descriptors."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(REQUEST_SECONDS)
        self._connection = connection
        self._descriptors: list[int] = []

    async def request(self) -> dict[str, Any] | None:
        """Read the request, with its `Login`; None if it is not valid, or the client disconnected before its end."""
        try:
            request = await asyncio.to_thread(wire.receive, self._connection, self._descriptors)
            return request and {**request, "login": wire.Login(*request["login"])}
        except (OSError, ValueError, TypeError, KeyError):
            return None
        finally:
            self._connection.setblocking(False)

    async def gone(self) -> None:
        """Wait until the client disconnects."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while await loop.sock_recv(self._connection, 1 << 12):
                pass

    def take_descriptors(self) -> tuple[int, int, int]:
        """Return stdin, stdout and stderr of the program and give up their ownership."""
        stdin, stdout, stderr = self._descriptors
        self._descriptors = []
        return stdin, stdout, stderr

    def reply(self, message: dict[str, Any]) -> None:
        """Send a message, unless the client has disconnected. Replies fit into the socket's buffer."""
        with contextlib.suppress(OSError):
            wire.send(self._connection, message)

    def close(self) -> None:
        self._connection.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []


async def _exec(client: _Client, served: _Served, command: str) -> dict[str, Any]:
    # A client that disconnects cancels this call. The shell must then be closed, as channels are limited, and the
    # pipes must be connected first: asyncio does not unregister a pipe whose connection was canceled.
    opening = asyncio.create_task(served.pool.shell())
    try:
        shell = await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unused)
        raise
    joining = asyncio.create_task(shell.run(command, *client.take_descriptors()))
    try:
        await asyncio.shield(joining)
        client.reply({})
        return {"exit": await asyncio.shield(shell.ended)}
    except (asyncssh.Error, OSError) as error:
        raise lost(served.login, error) from error
    finally:
        await asyncio.wait({joining})
        shell.close()


def _close_unused(opening: asyncio.Task[Shell]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


async def _serve_all(listener: socket.socket) -> None:
    await Link(listener, wire.LinkPaths()).run()
    os._exit(0)  # a thread may hang in a name lookup or in a command, and the interpreter would wait for it


def main(descriptor: str) -> None:
    """Run the link for the listening socket `descriptor`, and exit."""
    listener = socket.socket(fileno=int(descriptor))
    os.chdir("/")
    trace.forget_agent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain secrets
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, MOST_DESCRIPTORS), most))
    asyncio.run(_serve_all(listener))


if __name__ == "__main__":
    main(sys.argv[1])
