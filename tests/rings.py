"""The rings of tests, by what they need: the first needs only Python and git.

Each test of the second ring has at least one mark of `MARKS`; `pytest -m MARK` runs them. Most tests get their marks
from their fixtures, so that they cannot be forgotten. The others have them in their source text: a test of the first
ring fails if it needs another program (`require` in tests/conftest.py), and on CI also if it takes longer than
`SECONDS`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST = "first"
"""The mark of the tests of the first ring, which tests/conftest.py adds."""

SECONDS = 1.0
"""Processor time that a test of the first ring may take with its child processes, if the baseline takes as below."""

SOAK = "soak"
"""The mark of tests that kill processes at random or at many moments. `make soak` repeats them more often."""

REPEATS = int(os.environ.get("SOAK") or 1)
"""How many times longer the tests with the mark `soak` are."""

BASELINE_SECONDS = 0.11
"""Processor time of the baseline, which compiles Python's argparse five times (`slowness` in tests/conftest.py)."""

SMOKE = "smoke"
"""The mark of the few tests of the first ring that may take longer, because they go through the whole program."""

MARKS = {
    "processes": "starts the program or its processes many times",
    "slow": "computes or draws for longer than the first ring allows",
    "train": "trains with PyTorch",
    "packaging": "builds or installs packages",
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

TIME_ONLY = {"processes", "slow", "train", "packaging"}
"""Marks of tests that take too long for the first ring, but need no program besides Python and git."""

_FIXTURES = {
    "gpubox": "ssh",
    "key": "ssh",
    "inside": "system",
    "keyring": "system",
    "small_memory": "system",
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
