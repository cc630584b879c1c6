"""Which Python an interpreter is, asked of the interpreter itself, once for each file that it is.

Nothing else about it is known from outside: a path called `python3.11` may be any program.
"""

from __future__ import annotations

import os

from tui_workbench.errors import ConfigurationError

SECONDS = 20.0
"""An interpreter that does not tell its version in this time, even from a cold network disk, runs no script either."""

_ASK = "import sys; print('%d.%d.%d' % sys.version_info[:3])"

_known: dict[tuple[str, int, int], str] = {}


def python_version(interpreter: str) -> str:
    """The version of an interpreter, as `3.11.7`. Blocks for the start of a Python the first time.

    Raises ConfigurationError when the file is no Python, or does not answer.
    """
    import subprocess

    from tui_workbench import trace

    try:
        status = os.stat(interpreter)
        key = (interpreter, status.st_mtime_ns, status.st_size)
        if key not in _known:
            # -I -S: neither the user's variables nor site packages, which could print, may have a say.
            command = [interpreter, "-I", "-S", "-c", _ASK]
            with trace.Call(trace.PROCESS, command) as call:
                answer = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=SECONDS,
                    check=False,
                )
                call.end(answer.returncode, answer.stderr)
            answer.check_returncode()
            _known[key] = _checked(answer.stdout, interpreter)
    except (OSError, subprocess.SubprocessError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it does not answer as a Python does"
        raise _not_python(interpreter, reason or str(error)) from error
    return _known[key]


def _checked(answer: str, interpreter: str) -> str:
    version = answer.strip()
    if not version or not all(part.isdigit() for part in version.split(".")):
        raise _not_python(interpreter, "it does not answer as a Python does")
    return version


def _not_python(interpreter: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"{interpreter} cannot be used as a Python interpreter: {reason}",
        remedy="Set pythonLocation to a Python interpreter.",
    )
