"""A local package index that serves small wheels over HTTP."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def make_wheel(
    folder: Path, name: str, version: str, requires: Sequence[str] = (), *, tag: str = "py3-none-any"
) -> Path:
    """Build a wheel with the module `name`, which defines only `VERSION`."""
    path = folder / f"{name}-{version}-{tag}.whl"
    information = f"{name}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {each}" for each in requires]
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{information}/METADATA": "\n".join([*metadata, ""]),
        f"{information}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = []
    for file, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record.append(f"{file},sha256={digest},{len(text.encode())}\n")
    files[f"{information}/RECORD"] = "".join(record) + f"{information}/RECORD,,\n"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


class PackageIndex:
    """An index of the wheels in `folder`. `asked` are the requested paths; `hold` stops serving wheels."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.is_held = False
        self.delay = 0.0
        """Seconds before a wheel is served."""
        self._released = threading.Event()
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def do_HEAD(self) -> None:
                answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((address, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{address}:{self._server.server_port}/simple"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def add(self, name: str, version: str, requires: Sequence[str] = ()) -> Path:
        """Add a package."""
        return make_wheel(self.folder, name, version, requires)

    def hold(self) -> None:
        """Answer no requests for wheels until `release` or `close`."""
        self.is_held = True

    def release(self) -> None:
        """Answer requests for wheels again, including pending requests."""
        self.is_held = False
        self._released.set()

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append(request.path)
        name = request.path.rstrip("/").rpartition("/")[2]
        if name.endswith(".whl"):
            if self.is_held:
                self._released.wait(120)
            self._released.wait(self.delay)
            path = self.folder / name
            body = path.read_bytes() if path.exists() else b""
            status, kind = (200, "application/octet-stream") if body else (404, "text/plain")
        else:
            wheels = [
                path for path in sorted(self.folder.glob("*.whl")) if path.name.split("-")[0] == name.replace("-", "_")
            ]
            links = [
                f'<a href="/files/{path.name}#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}">{path.name}</a>'
                for path in wheels
            ]
            body = ("<!DOCTYPE html><html><body>" + "".join(links) + "</body></html>").encode()
            status, kind = (200, "text/html") if wheels else (404, "text/plain")
        with contextlib.suppress(OSError):
            request.send_response(status)
            request.send_header("Content-Type", kind)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            if request.command == "GET":
                request.wfile.write(body)


@contextlib.contextmanager
def package_index(folder: Path, address: str) -> Iterator[PackageIndex]:
    """Run an index at an address of this machine within the context."""
    folder.mkdir(parents=True, exist_ok=True)
    index = PackageIndex(folder, address)
    try:
        yield index
    finally:
        index.close()
