"""Stand-ins for the packages `tensorboard` and `jupyter_server`, with the functions that the workbench calls.

They check the token themselves, as the real packages do.
"""

from __future__ import annotations

from pathlib import Path

SERVES = """
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in PATHS else 404)
        self.end_headers()
        self.wfile.write(b"stand-in")
    def log_message(self, *words):
        pass
"""
TENSORBOARD = f"""{SERVES}
import types
class TensorBoardServerException(Exception):
    pass
class TensorBoard:
    def __init__(self):
        self.flags = types.SimpleNamespace(load_fast="auto")
    def configure(self, argv):
        options = dict(zip(argv[1::2], argv[2::2]))
        PATHS[:] = [options["--path_prefix"] + "/"]
        self.address = options["--host"], int(options["--port"])
    def launch(self):
        # The real package then serves the files at another port, without the token.
        if self.flags.load_fast != "false":
            raise AssertionError("the data server is on")
        try:
            server = http.server.HTTPServer(self.address, Handler)
        except OSError as error:
            raise TensorBoardServerException(str(error))
        threading.Thread(target=server.serve_forever, daemon=True).start()
PATHS = []
"""
JUPYTER = f"""{SERVES}
PATHS = []
class ServerApp:
    @classmethod
    def instance(cls):
        return cls()
    def initialize(self, options):
        values = dict(option.partition("=")[::2] for option in options)
        PATHS[:] = ["/?token=" + values["--IdentityProvider.token"]]
        self.address, self.port = values["--ip"], int(values["--port"])
    def start(self):
        # The real package also takes another port if the port is in use.
        try:
            server = http.server.HTTPServer((self.address, self.port), Handler)
        except OSError:
            server = http.server.HTTPServer((self.address, 0), Handler)
        server.serve_forever()
    @classmethod
    def launch_instance(cls, options):
        app = cls.instance()
        app.initialize(options)
        app.start()
main = ServerApp.launch_instance
"""


def add_packages(folder: Path, *, jupyter: bool = True) -> None:
    """Create the stand-ins in a folder of packages."""
    found = {"tensorboard/program.py": TENSORBOARD, **({"jupyter_server/serverapp.py": JUPYTER} if jupyter else {})}
    for path, text in found.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(text)


def python_with(folder: Path, python: str) -> Path:
    """Return an interpreter that imports the packages of a folder."""
    path = folder.parent / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {python} "$@"\n')
    path.chmod(0o755)
    return path
