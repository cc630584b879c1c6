"""Run a Jupyter notebook as a script.

    python workbench_notebook.py NOTEBOOK ARGUMENT...

The kernel runs with the Python of this process, whatever kernel the notebook names. It writes what the cells print to
stdout and stderr, as a script does. This process adds the text of results, the paths of images, and errors. Regularly
and at the end, it writes the executed notebook to the folder in WORKBENCH_OUTPUTS_DIRECTORY, with the images in
the folder NAME_files. It exits with 0, with the code of `sys.exit` in a cell, or with 1 after an error in a cell, which
ends the run.

Signals to this process are forwarded to the kernel. If the kernel dies, this process exits with its exit code, or with
128 and the number of its signal.

The workbench starts this file, and never imports it. The file must run on Python 3.5 or newer with the standard
library, nbclient and ipykernel.
"""

import asyncio
import base64
import contextlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

_AS_KERNEL = "--as-kernel"
_WORDS = "WORKBENCH_NOTEBOOK_WORDS"
"""The variable with `sys.argv` of the notebook as JSON. jupyter_client would replace words in braces in an argument."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_START_SECONDS = 600
"""Time limit in seconds for the kernel to start. On a busy file server, the imports take minutes."""

_END_SECONDS = 10**9
"""Seconds for the kernel to end after the last cell: practically no limit, because a script also waits for threads."""

SAVE_SECONDS = 30
"""Seconds between two writes of the executed notebook while cells are executed."""

_OUTPUT_SECONDS = 60
"""Time limit in seconds for the outputs of a cell to arrive after its end."""

MOST_TEXT = 1 << 24
"""Maximum number of printed characters that the executed notebook keeps. All of them are in the log."""

_CUT = "\n[The rest of the output is in the log of the run.]\n"
_IMAGES = (("image/png", ".png"), ("image/jpeg", ".jpg"), ("image/gif", ".gif"), ("image/svg+xml", ".svg"))
"""The types of images that are written to files, best first."""


def become_kernel(connection_file: "str") -> "None":
    """Run the kernel in this process until the client ends it."""
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # the import would print a warning about the debugger
    from ipykernel.kernelapp import IPKernelApp

    words = json.loads(os.environ.pop(_WORDS))
    app = IPKernelApp.instance()  # type: Any
    # With these options, prints reach stdout and stderr directly, and the output of subprocesses is not captured: it
    # could be lost when the kernel crashes.
    options = ["--IPKernelApp.quiet=False", "--IPKernelApp.capture_fd_output=False"]
    app.initialize(["-f", connection_file, "--HistoryManager.hist_file=:memory:", *options])
    for name in ("stdout", "stderr"):
        getattr(sys, name).fileno = getattr(sys, "__%s__" % name).fileno  # for `subprocess.run(..., stdout=sys.stdout)`
    app.shell.user_ns.update(exit=sys.exit, quit=sys.exit)  # those of IPython end the kernel after the next cell
    sys.argv[:] = words
    sys.path[0] = os.path.dirname(os.path.abspath(words[0]))  # as for a script; the kernel has set it to ""
    app.start()


class Execution:
    """One execution of a notebook."""

    def __init__(self, path: "str", arguments: "List[str]") -> "None":
        self._words = [path, *arguments]
        self._name = os.path.splitext(os.path.basename(path))[0]
        self._outputs = os.environ.get("WORKBENCH_OUTPUTS_DIRECTORY") or "outputs"
        self._images = 0
        self._kept = 0
        self._cell = None  # type: Any  # the cell that is executed
        self._kernel = None  # type: Any  # the process of the kernel

    def run(self) -> "int":
        """Execute the cells and return the exit code. Raises ImportError, ValueError or OSError."""
        try:
            import ipykernel  # noqa: F401
            import nbclient
            import nbformat
        except ImportError as error:
            problem = (
                "running a notebook needs nbclient and ipykernel (%s). To install: %s -m pip install nbclient ipykernel"
            )
            raise ImportError(problem % (error, sys.executable)) from None
        self._formats = nbformat  # type: Any
        self._notebook = _read(self._formats, self._words[0])
        # Paths of Unix sockets have at most 107 bytes, and the folder in TMPDIR may be longer.
        folder = tempfile.mkdtemp(prefix="workbench-", dir="/tmp")
        try:
            return self._execute(nbclient, _manager(folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self._save()

    def _execute(self, nbclient: "Any", manager: "Any") -> "int":
        self._client = nbclient.NotebookClient(
            self._notebook, km=manager, timeout=None, startup_timeout=_START_SECONDS, iopub_timeout=_OUTPUT_SECONDS
        )
        if self._client.has_trait("coalesce_streams"):
            self._client.coalesce_streams = True
        self._process, self._client.process_message = self._client.process_message, self._process_message
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._execute_cells(loop))
        except nbclient.exceptions.CellExecutionError as error:
            location = "cell [%s] of %s.ipynb" % (self._cell.execution_count, self._name)
            return exit_code(location, error.ename, error.evalue)
        except nbclient.exceptions.DeadKernelError:
            code = self._kernel.poll() if self._kernel is not None else None
            if code == 0:  # for example `os._exit(0)` in a cell
                return 0
            _print("%s.ipynb: the kernel has ended (%s)\n" % (self._name, code), sys.stderr)
            return 1 if code is None else 128 - code if code < 0 else code
        finally:
            loop.close()
        return 0

    async def _execute_cells(self, loop: "Any") -> "None":
        self._client.reset_execution_trackers()
        variables = dict(os.environ)
        variables[_WORDS] = json.dumps(self._words)
        async with self._client.async_setup_kernel(env=variables, cleanup_kc=True):
            self._kernel = self._client.km.provisioner.process
            for number in _SIGNALS:
                loop.add_signal_handler(number, self._kernel.send_signal, number)
            saving = loop.create_task(self._save_regularly())
            try:
                for index, cell in enumerate(self._notebook.cells):
                    await self._client.async_execute_cell(cell, index)
            finally:
                saving.cancel()
            self._client.set_widgets_metadata()

    async def _save_regularly(self) -> "None":
        """Write the executed notebook at intervals, so that a run that is killed keeps its outputs."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            with contextlib.suppress(OSError):  # the write at the end reports a full disk
                self._save()

    def _process_message(self, message: "Dict[str, Any]", cell: "Any", index: "int") -> "Any":
        self._cell = cell
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            room = max(MOST_TEXT - self._kept, 0)
            if not room and self._kept > MOST_TEXT:
                return None
            self._kept += len(content["text"])
            if self._kept > MOST_TEXT:
                content["text"] = content["text"][:room] + _CUT
        elif kind in ("execute_result", "display_data"):
            # A program may display any values, but the format of notebooks has only texts and JSON.
            content["data"] = {
                kind: value if isinstance(value, str) or kind.endswith("json") else str(value)
                for kind, value in content["data"].items()
            }
            self._show(content["data"])
        elif kind == "error":
            _print("\n".join(content["traceback"]) + "\n", sys.stderr)
        return self._process(message, cell, index)

    def _show(self, data: "Dict[str, Any]") -> "None":
        """Print the text of a result, or write its image to a file and print the path."""
        for kind, suffix in _IMAGES:
            if kind in data:
                try:
                    image = data[kind].encode("utf-8") if kind == "image/svg+xml" else base64.b64decode(data[kind])
                except ValueError:
                    continue
                self._images += 1
                path = "%s_files/%02d%s" % (self._name, self._images, suffix)
                self._write(path, image)
                _print("image: outputs/%s\n" % path, sys.stdout)
                return
        if "text/plain" in data:
            _print("%s\n" % data["text/plain"], sys.stdout)

    def _save(self) -> "None":
        """Write the executed notebook."""
        self._write("%s.ipynb" % self._name, self._formats.writes(self._notebook, 4).encode("utf-8", "replace"))

    def _write(self, name: "str", data: "bytes") -> "None":
        """Write a file of the outputs atomically."""
        path = os.path.join(self._outputs, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".", dir=os.path.dirname(path))
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only the user can read. The umask can only be read by setting it.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)


def _read(nbformat: "Any", path: "str") -> "Any":
    """Read a notebook, without its outputs. Raises ValueError or OSError."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
        content = json.loads(text)
        if not isinstance(content, dict) or not ("cells" in content or "worksheets" in content):
            raise ValueError("a notebook is a JSON object with `cells`")
        notebook = nbformat.reads(text, as_version=4)
        metadata = notebook.metadata
        language = (metadata.get("kernelspec") or {}).get("language") or metadata.get("language_info", {}).get("name")
    except OSError:
        raise
    except Exception as error:  # nbformat has no common class of errors
        raise ValueError("%s is not a valid notebook: %s" % (path, str(error).partition("\n")[0])) from None
    if (language or "python").lower() not in ("python", "ipython"):
        raise ValueError("%s is a notebook for %s: only notebooks for Python can be run" % (path, language))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def _manager(folder: "str") -> "Any":
    """Return a manager that starts this file as the kernel. Only this user can connect to sockets in `folder`."""
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    class OwnKernel(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: "str") -> "Any":
            command = [sys.executable, os.path.abspath(__file__), _AS_KERNEL, "{connection_file}"]
            return KernelSpec(argv=command, display_name="Python", language="python")

    file = os.path.join(folder, "kernel.json")
    return AsyncKernelManager(
        kernel_spec_manager=OwnKernel(), transport="ipc", connection_file=file, shutdown_wait_time=_END_SECONDS
    )


def exit_code(location: "str", error: "str", text: "str") -> "int":
    """Return the exit code after an exception at `location`. Print the exception, the reason of the end of the run."""
    if error == "SystemExit":
        if text in ("", "0", "None"):
            return 0
        if re.match("-?[0-9]+$", text):
            return int(text) & 0xFF
    # The workbench reads the last lines of a traceback of Python; IPython has another format.
    header = "Traceback (most recent call last):\n  In %s\n" % location
    _print("%s%s\n" % (header, "%s: %s" % (error, text) if text else error), sys.stderr)
    return 1


def _print(text: "str", stream: "Any") -> "None":
    stream.buffer.write(text.encode("utf-8", "replace"))
    stream.buffer.flush()


if __name__ == "__main__":
    if sys.argv[1] == _AS_KERNEL:
        become_kernel(sys.argv[2])
    else:
        try:
            sys.exit(Execution(sys.argv[1], sys.argv[2:]).run())
        except (ImportError, ValueError, OSError) as problem:  # a traceback of this file would not help the user
            sys.exit(exit_code(os.path.basename(sys.argv[1]), type(problem).__name__, str(problem)))
