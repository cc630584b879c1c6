"""Start Jupyter in a run, when the workbench asks for it. The run ends with Jupyter.

    python workbench_jupyter.py FOLDER

This file listens on a Unix socket in FOLDER. A client sends arguments for Python as a JSON list in one line, with its
standard streams. The process that is started gets these streams and the environment of the run. The connection ends
when the process has ended.

The workbench starts this file for runs of `notebook`, and never imports it. The file must run on Python 3.5 or newer
with the standard library only.
"""

import array
import json
import os
import signal
import socket
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

SOCKET = "jupyter"
WAIT_SECONDS = 600.0
"""Time limit in seconds for the client to connect. Without a limit, a killed client would leave the run behind."""

_STREAMS = 3
_CHUNK = 1 << 16


def serve(folder: "str") -> "int":
    """Wait for a client, start the process that it requests, and return an exit code. Raises OSError or ValueError."""
    listener = _listen(folder)
    listener.settimeout(WAIT_SECONDS)
    try:
        client = listener.accept()[0]
    except socket.timeout:
        sys.stderr.write("No client has connected to this run within %d minutes.\n" % (WAIT_SECONDS // 60))
        return 1
    finally:
        listener.close()  # further clients are refused
    client.settimeout(WAIT_SECONDS)
    words, streams = _receive(client)
    process = subprocess.Popen([sys.executable, *words], stdin=streams[0], stdout=streams[1], stderr=streams[2])
    for stream in streams:
        os.close(stream)
    code = process.wait()
    client.close()
    if code == -signal.SIGTERM:
        return 0  # Jupyter ends itself with this signal when the client has ended
    return code if code >= 0 else 128 - code


def _listen(folder: "str") -> "socket.socket":
    listener = socket.socket(socket.AF_UNIX)
    project, mask = os.getcwd(), os.umask(0o077)
    os.chdir(folder)  # the path of a socket has at most 107 bytes, and the path of the folder may be longer
    try:
        listener.bind(SOCKET)
        listener.listen(1)
    finally:
        os.chdir(project)
        os.umask(mask)
    return listener


def _receive(client: "socket.socket") -> "Tuple[List[str], List[int]]":
    """Return the arguments and the streams that a client sends. Raises OSError or ValueError."""
    streams = array.array("i")
    text, ancillary = client.recvmsg(_CHUNK, socket.CMSG_SPACE(_STREAMS * streams.itemsize))[:2]
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            streams.frombytes(content)
    while not text.endswith(b"\n"):
        more = client.recv(_CHUNK)
        if not more:
            break
        text += more
    if len(streams) != _STREAMS:
        raise ValueError("the client has sent %d streams instead of %d" % (len(streams), _STREAMS))
    return json.loads(text.decode("utf-8")), list(streams)


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1]))
