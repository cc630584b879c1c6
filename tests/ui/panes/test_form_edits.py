"""Form rows and edits of documents, without a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import corpus
from tui_workbench.config.document import Document
from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.ui.form import form_edits
from tui_workbench.ui.form.form_rows import FormRow, form_rows, in_order

RUNCONFIG = """\
# What runs.
Target: "gpu-box"   # where
ArgumentVector:
  - $file
  - --epochs
EnvironmentVariables:
  LR: 0.1
Framework: Python
"""

CONDA = """\
name: project_environment
dependencies:
  - python=3.6
  - pip:
    # theirs
    - torch==1.0
"""

SPARK = """\
packages:
  - group: com.microsoft
    artifact: mmlspark
    version: '0.9'
"""


def document_of(tmp_path: Path, name: str, text: str) -> Document:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return Document.open(str(path))


def row_of(document: Document, label: str, value: str | None = None) -> FormRow:
    return next(row for row in form_rows(document) if row.label == label and value in (None, row.value))


def adder(document: Document, noun: str) -> FormRow:
    return next(row for row in form_rows(document) if row.kind == "add" and row.noun == noun)


class TestRows:
    def test_set_fields_come_first_then_the_defaults(self, tmp_path: Path) -> None:
        document = document_of(tmp_path, "a.runconfig", RUNCONFIG)
        shown = [(row.label, row.value or row.noun, row.is_set) for row in form_rows(document)]
        assert shown[:9] == [
            ("Target", "gpu-box", True),
            ("ArgumentVector", "", True),
            ("1", "$file", True),
            ("2", "--epochs", True),
            ("", "argument", True),
            ("EnvironmentVariables", "", True),
            ("LR", "0.1", True),
            ("", "NAME=value", True),
            ("Framework", "Python", True),
        ]
        assert ("TrackedRun", "● on", False) in shown
        assert ("CondaDependenciesFile", "aml_config/conda_dependencies.yml", False) in shown

    def test_row_keeps_its_place_when_it_is_set(self, tmp_path: Path) -> None:
        document = document_of(tmp_path, "a.runconfig", RUNCONFIG)
        order = [row.field.key for row in form_rows(document) if row.kind == "field"]
        form_edits.accept(document, row_of(document, "DataSourceSubstitutions"), "a=b")
        form_edits.clear(document, row_of(document, "Target"))
        document.replace_text(document.text + "unknown: 1\n")
        rows = in_order(form_rows(document), order)
        fields = [row.field.key for row in rows if row.kind == "field"]
        assert [key for key in fields if key != "unknown"] == order
        assert [row.label for row in rows[-3:]] == ["a", "", "unknown"]

    def test_secret_is_never_shown(self, tmp_path: Path) -> None:
        text = "type: remote\naddress: a\npassword: {}\n"
        kept = document_of(tmp_path, "a.compute", text.format("AzureMlSecret=a#b#00"))
        assert row_of(kept, "password").value == "in the keyring or in memory"
        plain = document_of(tmp_path, "b.compute", text.format("hunter2"))
        assert "hunter2" not in row_of(plain, "password").value

    def test_uneditable_value_is_shown(self, tmp_path: Path) -> None:
        document = document_of(tmp_path, "a.runconfig", "Target: a\nnew: {a: [1,\n 2]}\nArgumentVector: oops\n")
        unknown, wrong = row_of(document, "new"), row_of(document, "ArgumentVector")
        assert (unknown.value, unknown.is_known, unknown.is_editable) == ("{a: [1, 2]}", False, False)
        assert (wrong.value, wrong.is_editable) == ("oops", False)

    def test_packages_have_labels_and_spark_packages_one_line(self, tmp_path: Path) -> None:
        conda = form_rows(document_of(tmp_path, "conda_dependencies.yml", CONDA))
        assert [(row.label, row.value or row.noun) for row in conda[1:6]] == [
            ("dependencies", ""),
            ("conda", "python=3.6"),
            ("", "conda package"),
            ("pip", "torch==1.0"),
            ("", "pip package"),
        ]
        spark = form_rows(document_of(tmp_path, "spark_dependencies.yml", SPARK))
        assert spark[1].value == "com.microsoft:mmlspark:0.9"

    @pytest.mark.corpus
    def test_real_files_have_rows_with_unique_keys(self) -> None:
        for path in sorted(corpus().rglob("*")):
            if path.suffix in (".compute", ".runconfig", ".yml"):
                rows = form_rows(Document.open(str(path)))
                keys = [row.key for row in rows]
                assert len(keys) == len(set(keys)), path


class TestEdits:
    def test_edit_changes_only_the_value(self, tmp_path: Path) -> None:
        document = document_of(tmp_path, "a.runconfig", RUNCONFIG)
        form_edits.accept(document, row_of(document, "Target"), "other")
        assert document.text == RUNCONFIG.replace('"gpu-box"', '"other"')
        form_edits.accept(document, row_of(document, "2"), "--rounds")
        form_edits.accept(document, row_of(document, "LR"), "0.2")
        assert document.text == RUNCONFIG.replace('"gpu-box"', '"other"').replace("epochs", "rounds").replace(
            "0.1", "0.2"
        )

    def test_references_are_a_list_until_one_leads_elsewhere(self, tmp_path: Path) -> None:
        document = document_of(tmp_path, "a.runconfig", "Target: a\n")
        form_edits.accept(document, row_of(document, "DataReferences"), "../data")
        noun = "path, or path=path of the data"
        form_edits.accept(document, adder(document, noun), "/srv/year=2020")
        assert document.text == "Target: a\nDataReferences:\n  - ../data\n  - /srv/year=2020\n"
        assert form_edits.why_not("rename", form_rows(document), row_of(document, "1"))
        form_edits.accept(document, adder(document, noun), "images = /mnt/images")
        assert document.get("DataReferences") == {
            "../data": "../data", "/srv/year=2020": "/srv/year=2020", "images": "/mnt/images",
        }  # fmt: skip
        form_edits.accept(document, row_of(document, "images"), "/mnt/others")
        assert not form_edits.why_not("rename", form_rows(document), row_of(document, "images"))
        form_edits.clear(document, row_of(document, "../data"))
        assert document.get("DataReferences") == {"/srv/year=2020": "/srv/year=2020", "images": "/mnt/others"}

    def test_unset_switch_toggles_from_its_default(self, tmp_path: Path) -> None:
        document = document_of(tmp_path, "a.runconfig", RUNCONFIG)
        unset = row_of(document, "TrackedRun")
        form_edits.toggle(document, unset)
        assert document.get("TrackedRun") is False
        form_edits.toggle(document, unset)
        assert document.get("TrackedRun") is True

    def test_next_choice_wraps_at_the_end(self, tmp_path: Path) -> None:
        document = document_of(tmp_path, "a.runconfig", RUNCONFIG)
        row = row_of(document, "Framework")
        form_edits.next_choice(document, row)
        assert document.get("Framework") == "PySpark"
        form_edits.next_choice(document, row)
        assert document.text == RUNCONFIG

    @pytest.mark.parametrize(
        ("noun", "text", "line"),
        [("argument", "10", "  - 10\n"), ("NAME=value", "SEED=a=b", "  SEED: a=b\n")],
    )
    def test_entry_is_added_at_the_end_and_removed(self, tmp_path: Path, noun: str, text: str, line: str) -> None:
        document = document_of(tmp_path, "a.runconfig", RUNCONFIG)
        form_edits.accept(document, adder(document, noun), text)
        added = set(document.text.splitlines(keepends=True)) - set(RUNCONFIG.splitlines(keepends=True))
        assert {one.replace('"', "").replace("'", "") for one in added} == {line}
        label = text.partition("=")[0] if "=" in text else "3"
        form_edits.clear(document, row_of(document, label))
        assert document.text == RUNCONFIG

    def test_first_entry_creates_the_list(self, tmp_path: Path) -> None:
        document = document_of(tmp_path, "conda_dependencies.yml", CONDA)
        row = row_of(document, "channels")
        place = form_edits.place_to_add(form_rows(document), row)
        assert place is row
        form_edits.accept(document, row, "conda-forge")
        assert document.get("channels") == ("conda-forge",)

    def test_conda_package_goes_before_the_pip_section(self, tmp_path: Path) -> None:
        document = document_of(tmp_path, "conda_dependencies.yml", CONDA)
        form_edits.accept(document, adder(document, "conda package"), "numpy")
        form_edits.accept(document, adder(document, "pip package"), "keras")
        assert document.text == CONDA.replace("  - pip:", "  - numpy\n  - pip:") + "    - keras\n"

    def test_pip_section_exists_only_with_packages(self, tmp_path: Path) -> None:
        text = "name: a\ndependencies:\n  - python=3.6\n"
        document = document_of(tmp_path, "conda_dependencies.yml", text)
        form_edits.accept(document, adder(document, "pip package"), "keras")
        assert document.get("dependencies") == ("python=3.6", {"pip": ("keras",)})
        form_edits.clear(document, row_of(document, "pip"))
        assert document.text == text

    def test_spark_package_edit_writes_only_the_changed_part(self, tmp_path: Path) -> None:
        document = document_of(tmp_path, "spark_dependencies.yml", SPARK)
        form_edits.accept(document, row_of(document, "1"), "com.microsoft:mmlspark:1.0")
        assert document.text == SPARK.replace("'0.9'", "'1.0'")
        form_edits.accept(document, adder(document, "group:artifact:version"), "a:b:c")
        assert document.get("packages")[1] == {"group": "a", "artifact": "b", "version": "c"}

    def test_entries_can_be_moved(self, tmp_path: Path) -> None:
        document = document_of(tmp_path, "a.runconfig", RUNCONFIG)
        path = form_edits.move(document, row_of(document, "2"), -1)
        assert path == ("ArgumentVector", 0)
        assert document.get("ArgumentVector") == ("--epochs", "$file")
        assert form_edits.move(document, row_of(document, "1"), -1) == ("ArgumentVector", 0)
        assert form_edits.move(document, row_of(document, "LR"), -1) == ("EnvironmentVariables", "LR")

    @pytest.mark.parametrize(
        ("name", "text", "label", "value"),
        [
            ("a.runconfig", RUNCONFIG, "Framework", "Fortran"),
            ("spark_dependencies.yml", SPARK, "1", "a:b"),
            ("spark_dependencies.yml", "version: 1\n", "version", "one"),
            ("spark_dependencies.yml", "version: 1\n", "version", "--5"),
            ("spark_dependencies.yml", "version: 1\n", "version", "²"),
            ("spark_dependencies.yml", "version: 1\n", "version", "1" * 5000),
        ],
    )
    def test_invalid_value_is_refused_and_changes_nothing(
        self, tmp_path: Path, name: str, text: str, label: str, value: str
    ) -> None:
        document = document_of(tmp_path, name, text)
        with pytest.raises(UsageError) as caught:
            form_edits.accept(document, row_of(document, label), value)
        assert caught.value.remedy
        assert document.text == text

    def test_map_entry_needs_a_name(self, tmp_path: Path) -> None:
        document = document_of(tmp_path, "a.runconfig", RUNCONFIG)
        for text in ("value", "=value"):
            with pytest.raises(WorkbenchError, match="NAME=value"):
                form_edits.accept(document, adder(document, "NAME=value"), text)
