"""Check that the package reads files and programs only through the functions that limit the size and the time.

`make check` runs `python -m tests.bounded_reading`. A FIFO, a device, an endless answer or a file of a terabyte in a
place that others can write must neither block a command nor fill the memory. Files are therefore opened by
`core/files.py`, programs are started by `core/processes.py` or by a host, and JSON is parsed by `core/json_values.py`,
so that no depth of a document and no number of it ends a command. Uses of other functions need an entry in
EXCEPTIONS.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from tests import source_check
from tests.source_check import Use

_OWN_STATE = "writes a file in the user's state folder, where no other user can write"
_TERMINAL = "opens the terminal"
_NO_PIPES = "replaces this process, and reads nothing"

EXCEPTIONS = {
    ("cli/agent/mcp.py", "subprocess.Popen"): "starts the workbench's own server, and reads nothing of it",
    ("cli/az.py", "os.execv"): _NO_PIPES,
    ("cli/doctor/doctor_terminal.py", "os.open"): _TERMINAL,
    ("cli/shared/prompts.py", "open"): _TERMINAL,
    ("cli/shell.py", "os.execvpe"): _NO_PIPES,
    ("config/yaml_edit/syntax_errors.py", "json.JSONDecoder"): "finds the place of an error, and uses no value",
    ("core/files.py", "open"): "has the functions that open files",
    ("core/files.py", "os.open"): "has the functions that open files",
    ("core/json_values.py", "json.JSONDecoder"): "has the functions that parse JSON",
    ("core/locks.py", "os.open"): "opens lock files without waiting, and reads nothing",
    ("core/processes.py", "os.posix_spawn"): "has the function that starts detached programs",
    ("core/processes.py", "subprocess.Popen"): "has the function that runs programs",
    ("core/system.py", "open"): "reads files of the kernel in /proc",
    ("core/system.py", "os.open"): "reads files of the kernel in /proc, and creates files without a name",
    ("core/system.py", "read of a whole file"): "reads files of the kernel in /proc",
    ("core/trace.py", "os.open"): "appends to the trace",
    ("runs/lifecycle/starting.py", "os.execve"): _NO_PIPES,
    ("runs/snapshots/file_copy.py", "open"): "writes to a file without a name, whose descriptor is open",
    ("runs/index/index_file.py", "sqlite3.connect"): "the index is a cache of this user, whose owner is checked before",
    ("runs/store/ownership.py", "open"): "opens a regular file in a folder whose inode it also needs",
    ("runs/store/ownership.py", "os.open"): "opens a regular file in a folder whose inode it also needs",
    ("runs/store/rundir.py", "os.open"): "flushes files and folders to disk, and reads nothing",
    ("runs/sweeps/sweep_values.py", "open"): "the user names the file on the command line; it can be a pipe",
    ("targets/environments/managed.py", "pathlib"): "rattler takes and returns paths of this type",
    ("targets/environments/managed.py", "subprocess.Popen"): "reports the lines of uv, and keeps only the last ones",
    ("targets/remote/yarn.py", "zipfile.ZipFile"): "writes an archive in memory",
    ("targets/docker/wheels.py", "zipfile.ZipFile"): "reads a wheel of uv whose digest was checked",
    ("targets/gpu/amd_program.py", "subprocess.Popen"): "runs on other machines, without the package",
    ("targets/gpu/amd_program.py", "json.loads"): "runs on other machines, without the package",
    ("targets/gpu/feed.py", "io.FileIO"): "reads the samples in the user's state folder, which the sampler limits",
    ("targets/gpu/sampler.py", "os.open"): _OWN_STATE,
    ("targets/hosts/fetching.py", "shutil.copy2"): "copies a file that it has just unpacked into a folder of its own",
    ("targets/hosts/host.py", "subprocess.Popen"): "has the process of a host, whose reader limits the answer",
    ("targets/ssh/ssh_channel.py", "os.fdopen"): "connects descriptors of pipes to the event loop",
    ("targets/ssh/known_hosts.py", "os.open"): "appends to the user's known_hosts",
    ("targets/ssh/proxy_command.py", "asyncio.create_subprocess_exec"): "keeps the end of stderr of a ProxyCommand",
    ("targets/ssh/ssh_host.py", "os.open"): _OWN_STATE,
    ("runs/transfer/mlflow_export.py", "pathlib"): "the client of MLflow takes paths of this type",
}
"""The uses of other functions, and why each is safe."""

_OPEN = {
    "builtins": "open",
    "io": "open open_code FileIO",
    "codecs": "open",
    "os": "open fdopen",
    "tokenize": "open",
    "linecache": "getline getlines",
    "fileinput": "input FileInput",
    "gzip": "open",
    "bz2": "open",
    "lzma": "open",
    "mmap": "mmap",
    "zipfile": "ZipFile",
    "tarfile": "open",
    "sqlite3": "connect",
    "shutil": "copy copy2 copyfile copytree move unpack_archive",
    "runpy": "run_path",
    "numpy": "load fromfile genfromtxt loadtxt",
}
_START = {
    "os": "popen system execl execle execlp execlpe execv execve execvp execvpe posix_spawn posix_spawnp spawnl "
    "spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe",
    "pty": "spawn",
    "subprocess": "Popen run call check_call check_output getoutput getstatusoutput",
    "asyncio": "create_subprocess_exec create_subprocess_shell",
}
_LOAD = {**dict.fromkeys(("tomllib", "pickle", "marshal"), "load"), "json": "load loads JSONDecoder"}
_REFUSED = frozenset(
    f"{module}.{name}" for table in (_OPEN, _START, _LOAD) for module, names in table.items() for name in names.split()
)
_METHODS = frozenset(("read_text", "read_bytes", "subprocess_exec", "subprocess_shell"))
_READ_ALL = frozenset(("read", "readall", "readline", "readlines"))
_OPENERS = frozenset(("open", "io.open", "io.FileIO", "os.fdopen", "open_regular", "open_file"))


def uses_in(source: str) -> list[Use]:
    """Return the refused uses in the text of a module."""
    nodes = list(ast.walk(ast.parse(source)))
    names, files = _imported(nodes), _files(nodes)
    harmless = {id(node.func) for node in nodes if isinstance(node, ast.Call) and _is_harmless(node, names)}
    found = []
    for node in nodes:
        if _imports_pathlib(node):
            found.append(Use("pathlib", node.lineno))
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in harmless:
            name = _dotted(node, names)
            if name in _REFUSED:
                found.append(Use(name.removeprefix("builtins."), node.lineno))
            elif isinstance(node, ast.Attribute) and node.attr in _METHODS and not _is_metadata(node):
                found.append(Use(node.attr, node.lineno))
        found += (Use("read of a whole file", line) for line in _whole_reads(node, files))
    return sorted(set(found), key=lambda use: use.line)


def _imported(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Return the full names of imported modules and functions by their local names."""
    names = {"open": "builtins.open"}
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update({alias.asname or alias.name: alias.name for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def _imports_pathlib(node: ast.AST) -> TypeGuard[ast.Import | ast.ImportFrom]:
    if isinstance(node, ast.Import):
        return any(alias.name == "pathlib" for alias in node.names)
    return isinstance(node, ast.ImportFrom) and node.module == "pathlib"


def _dotted(node: ast.AST, names: dict[str, str]) -> str:
    """Return the full name of a function; "" for other expressions."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, names)}.{node.attr}"
    return ""


def _is_harmless(call: ast.Call, names: dict[str, str]) -> bool:
    """Return True for a call that opens /dev/null, a folder, the result of `open_below`, or an open archive."""
    name = _dotted(call.func, names)
    if name == "tarfile.open":
        return any(keyword.arg == "fileobj" for keyword in call.keywords)
    if name not in ("builtins.open", "os.open"):
        return False
    first, *others = map(ast.unparse, call.args)
    return first == "os.devnull" or first.startswith("open_below(") or any("O_DIRECTORY" in each for each in others)


def _is_metadata(node: ast.Attribute) -> bool:
    """Return True for `distribution(NAME).read_text`, which reads an installed package."""
    return isinstance(node.value, ast.Call) and _dotted(node.value.func, {}).endswith("distribution")


def _files(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that a `with` statement or an assignment gives to open files."""
    files = set()
    for node in nodes:
        if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name) and _opens(node.context_expr):
            files.add(node.optional_vars.id)
        elif isinstance(node, ast.Assign) and _opens(node.value):
            files.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return files


def _opens(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = _dotted(node.func, {}).removeprefix("builtins.")
    return name in _OPENERS or (name.endswith(".enter_context") and any(map(_opens, node.args)))


def _whole_reads(node: ast.AST, files: set[str]) -> Iterator[int]:
    """Yield the line of a node that reads a file, or a line of it, without a limit."""
    if isinstance(node, ast.For | ast.comprehension) and _is_file(node.iter, files):
        yield node.iter.lineno  # a line has no limit
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr in _READ_ALL and not node.args:
        yield from [node.lineno] if _is_file(node.func.value, files) else []
    if isinstance(node.func, ast.Name) and node.func.id in ("enumerate", "map", "list"):
        yield from (node.lineno for argument in node.args if _is_file(argument, files))


def _is_file(node: ast.AST, files: set[str]) -> bool:
    return (isinstance(node, ast.Name) and node.id in files) or _opens(node)


def problems() -> list[str]:
    """Return a line for each refused use in the package, and for each exception without a use."""
    return source_check.problems(uses_in, EXCEPTIONS, "tests/bounded_reading.py")


def main() -> int:
    advice = (
        "Use the functions of core/files.py, core/processes.py and core/json_values.py, which limit what they read."
    )
    return source_check.report(problems(), advice)


if __name__ == "__main__":
    sys.exit(main())
