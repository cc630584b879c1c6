"""HTTP requests to a Docker engine behind a Unix socket. `engine` imports this module when an engine is used.

Each request opens a new connection, whose time limit is the `timeout` of the request.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import docker.auth
import docker.constants
import docker.errors
import docker.utils
import docker.utils.config
import requests
from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnection, UnixHTTPConnectionPool

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.targets.docker.answer_limits import LimitedSocket, Stream, refuse_encoded

Refuse = Callable[[str], Exception]
"""Returns the error for an answer that is refused for a reason."""


class _Connection(UnixHTTPConnection):  # type: ignore[misc]
    def __init__(self, pool: _Pool) -> None:
        super().__init__(pool.base_url, pool.socket_path, pool.timeout)
        self._refuse = pool.refuse

    def connect(self) -> None:
        self.limited = LimitedSocket(self.timeout, self._refuse)
        try:
            self.limited.connect(self.unix_socket)
        except BaseException:
            self.limited.close()
            raise
        self.sock = self.limited


class _Pool(UnixHTTPConnectionPool):  # type: ignore[misc]
    refuse: Refuse

    def _new_conn(self) -> _Connection:
        return _Connection(self)


class _Adapter(UnixHTTPAdapter):  # type: ignore[misc]
    def __init__(self, path: str, refuse: Refuse) -> None:
        super().__init__(f"http+unix://{path}")
        self._refuse = refuse

    def get_connection(self, url: str, proxies: Any = None) -> _Pool:
        # A pool for each request, so that no request gets the connection of another request, with its used limits.
        pool = _Pool(url, self.socket_path)
        pool.refuse = self._refuse
        return pool


def new_client(path: str, version: str, timeout: float | None, refuse: Refuse) -> docker.APIClient:
    """Return a client for an API version. Raises ConfigurationError if Docker's configuration file is invalid.

    `timeout` is the time limit in seconds of each request, or None.
    """
    try:
        api = docker.APIClient(base_url="unix:///var/run/docker.sock", version=version, timeout=timeout)
    except (docker.errors.InvalidConfigFile, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(
            f"cannot read the configuration of Docker: {error}",
            remedy="Correct the file, or move it away: `docker login` creates a new one.",
            file=docker.utils.config.find_config_file() or "",
        ) from error
    # The path is not in `base_url`, in which `#` and `?` would end it.
    api.mount("http+docker://", _Adapter(path, refuse))
    api.headers.update({"Connection": "close", "Accept-Encoding": "identity"})
    api.hooks["response"].append(functools.partial(refuse_encoded, refuse=refuse))
    api.max_redirects = 0
    # Ignore ~/.netrc and proxies for a local socket.
    api.trust_env = False
    return api


def find_version(path: str, timeout: float, refuse: Refuse) -> str:
    """Return the engine's API version. `_ping` is the fastest call that returns it.

    An engine refuses requests with a much older or newer version. Raises OSError if the socket does not exist or may
    not be used.
    """
    with LimitedSocket(timeout, refuse) as attempt:
        attempt.connect(path)
    api = new_client(path, docker.constants.DEFAULT_DOCKER_API_VERSION, timeout, refuse)
    answer = api.get(f"{api.base_url}/_ping", timeout=timeout)
    _raise_for_status(answer)
    return str(answer.headers["Api-Version"])


def open_stream(
    api: docker.APIClient, method: str, path: str, *, timeout: float | None, seconds: float | None, **request: Any
) -> Stream:
    """Return the stream of an answer. `timeout` limits the time until it begins, and `seconds` that of the stream."""
    url = f"{api.base_url}/v{api.api_version}{path}"
    response = api.request(method, url, stream=True, timeout=timeout, **request)
    try:
        _raise_for_status(response)
    except BaseException:
        response.close()
        raise
    return Stream(response, seconds)


def pull_request(api: docker.APIClient, reference: str) -> dict[str, Any]:
    """Return the parameters and headers of the request to pull an image, with the user's login to its registry.

    Raises docker.errors.InvalidRepository.
    """
    repository, tag = docker.utils.parse_repository_tag(reference)
    registry, _ = docker.auth.resolve_repository_name(repository)
    login = docker.auth.get_config_header(api, registry)
    headers = {"X-Registry-Auth": login} if login else {}
    return {"params": {"tag": tag, "fromImage": repository}, "headers": headers}


def _raise_for_status(response: requests.Response) -> None:
    try:
        response.raise_for_status()
    except requests.exceptions.HTTPError as error:
        raise docker.errors.create_api_error_from_http_exception(error) from error
