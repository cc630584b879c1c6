"""A real package, with metadata on the path, that adds the fake target as the type `quantum`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.support import write_files
from tests.targets import fake
from tui_workbench.core import target_types


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a package that adds the fake type `quantum`; return its folder."""
    site = tmp_path / "site"
    write_files(
        site,
        {
            "quantum.py": f"{Path(fake.__file__).read_text()}\nQuantumTarget = FakeTarget\n",
            "quantum-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: quantum\nVersion: 1.0\n",
            "quantum-1.0.dist-info/entry_points.txt": "[tui_workbench.targets]\nquantum = quantum:QuantumTarget\n",
        },
    )
    monkeypatch.syspath_prepend(str(site))
    target_types.forget_installed()
    yield site
    target_types.forget_installed()
