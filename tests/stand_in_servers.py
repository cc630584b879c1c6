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
class TensorBoard:
    def configure(self, argv):
        options = dict(zip(argv[1::2], argv[2::2]))
        PATHS[:] = [options["--path_prefix"] + "/"]
        self.address = options["--host"], int(options["--port"])
    def launch(self):
        server = http.server.HTTPServer(self.address, Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
PATHS = []
"""
JUPYTER = f"""{SERVES}
PATHS = []
def main(options):
    values = dict(option.partition("=")[::2] for option in options)
    PATHS[:] = ["/?token=" + values["--IdentityProvider.token"]]
    http.server.HTTPServer((values["--ip"], int(values["--port"])), Handler).serve_forever()
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
