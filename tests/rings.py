"""The rings of tests, by what they need: the first needs only Python and git.

Each test of the second ring has at least one mark of `MARKS`; `pytest -m MARK` runs them. Most tests get their marks
from their fixtures, so that they cannot be forgotten. The others have them in their source text: a test of the first
ring fails if it needs another program (`require` in tests/conftest.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST = "first"
"""The mark of the tests of the first ring, which tests/conftest.py adds."""

MARKS = {
    "ssh": "starts an SSH server, most often in a network namespace",
    "docker": "starts Docker engines",
    "slurm": "starts a Slurm cluster in network namespaces",
    "spark": "starts Spark",
    "tmux": "opens the screens in tmux or GNU screen",
    "browser": "opens the screens in a browser",
    "system": "needs root, or a program that many systems do not have",
    "corpus": "reads the collection of configuration files beside the repository",
}
"""The marks of the second ring, with their descriptions."""

_FIXTURES = {
    "gpubox": "ssh",
    "key": "ssh",
    "keyring": "system",
    "public": "ssh",
    "session_engine": "docker",
    "session_gpubox_engine": "docker",
    "session_slurm": "slurm",
    "session_slurm_accounting": "slurm",
    "small_disk": "system",
    "sshd": "ssh",
    "standin_parts": "system",
}


def marks_of(fixtures: Iterable[str]) -> set[str]:
    """Return the marks of a test that uses these fixtures."""
    return {mark for name in fixtures if (mark := _FIXTURES.get(name))}
