"""The reference page is generated from the declared fields, and the page in docs/ is current."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import REPOSITORY
from tui_workbench.config.checks.findings import CODES
from tui_workbench.config.reference import reference_page
from tui_workbench.config.schema.fields import KINDS


def test_page_in_docs_is_current() -> None:
    made = subprocess.run([sys.executable, "-m", "tui_workbench.config.reference"], capture_output=True, check=True)
    page = (REPOSITORY / "docs" / "reference" / "configuration-reference.md").read_bytes()
    assert made.stdout == page, "run `make pages`"


def test_page_has_every_field_and_code() -> None:
    page = reference_page()
    for kind in KINDS:
        for field in kind.fields:
            assert f"| `{field.key}` |" in page
            assert field.help.replace("|", "\\|") in page
            assert field.help.endswith(".")
            assert field.source
    for code in CODES:
        assert f"| `{code}` |" in page
