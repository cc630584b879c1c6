"""Files and targets that a run configuration names must exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.documents import document, in_project, project
from tui_workbench.config.checks.findings import ERROR, WARNING, Finding


def found(root: Path, name: str, code: str) -> list[Finding]:
    return [finding for finding in in_project(root, name).problems() if finding.code == code]


def test_unknown_target_suggests_the_nearest(tmp_path: Path) -> None:
    project(
        tmp_path, a__runconfig="Target: gpubox\nFramework: Python\n", gpu_box__compute="type: local\n", x__compute=""
    )
    (finding,) = found(tmp_path, "a.runconfig", "unknown-target")
    assert (finding.severity, finding.line, finding.column, finding.key) == (ERROR, 1, 9, "Target")
    assert finding.remedy == "Choose one of: gpu_box, x."
    assert finding.fix is not None
    editing = in_project(tmp_path, "a.runconfig")
    editing.apply(finding.fix)
    assert editing.text == "Target: gpu_box\nFramework: Python\n"


def test_project_without_targets_is_reported(tmp_path: Path) -> None:
    project(tmp_path, a__runconfig="Target: x\nFramework: Python\n")
    (finding,) = found(tmp_path, "a.runconfig", "unknown-target")
    assert finding.fix is None
    assert finding.remedy.startswith("Attach a target with this name, for example: ")


def test_missing_target_is_guessed_from_the_file_name(tmp_path: Path) -> None:
    project(
        tmp_path, box__runconfig="Framework: Python\n", box__compute="type: local\n", other__compute="type: local\n"
    )
    (finding,) = found(tmp_path, "box.runconfig", "missing-field")
    assert finding.fix is not None
    assert finding.fix.title == "set Target: box"


@pytest.mark.parametrize(
    ("target", "severity"),
    [("type: localdocker\nbaseDockerImage: i:1\n", ERROR), ("type: local\n", WARNING)],
)
def test_missing_conda_file_matters_if_used(tmp_path: Path, target: str, severity: str) -> None:
    project(
        tmp_path,
        a__runconfig=(
            "Target: t\nFramework: Python\nPrepareEnvironment: true\nCondaDependenciesFile: aml_config/no.yml\n"
        ),
        t__compute=target,
        conda_dependencies__yml="dependencies:\n- numpy\n",
    )
    (finding,) = found(tmp_path, "a.runconfig", "missing-file")
    assert finding.severity == severity
    assert finding.fix is not None
    assert finding.fix.title == "set CondaDependenciesFile: aml_config/conda_dependencies.yml"


@pytest.mark.parametrize(("framework", "severity"), [("PySpark", ERROR), ("Python", WARNING)])
def test_missing_spark_file_matters_for_spark(tmp_path: Path, framework: str, severity: str) -> None:
    project(
        tmp_path,
        a__runconfig=f"Target: t\nFramework: {framework}\nSparkDependenciesFile: no.yml\n",
        t__compute="type: local\n",
    )
    (finding,) = found(tmp_path, "a.runconfig", "missing-file")
    assert finding.severity == severity


def test_missing_script_is_reported_at_its_position(tmp_path: Path) -> None:
    project(
        tmp_path,
        a__runconfig="ArgumentVector:\n- trian.py\n- --x\nTarget: t\nFramework: Python\n",
        b__runconfig="ArgumentVector:\n- train.py\nTarget: t\nFramework: Python\n",
        c__runconfig="ArgumentVector:\n- $file\nTarget: t\nFramework: Python\n",
        t__compute="type: local\n",
        **{"train.py": "print()\n"},
    )
    (finding,) = found(tmp_path, "a.runconfig", "missing-file")
    assert (finding.line, finding.column) == (2, 3)
    assert found(tmp_path, "b.runconfig", "missing-file") == []
    assert found(tmp_path, "c.runconfig", "missing-file") == []


def test_broken_target_is_not_a_finding_of_its_users(tmp_path: Path) -> None:
    project(tmp_path, a__runconfig="Target: t\nFramework: Python\n", t__compute="type: 'local\n")
    assert in_project(tmp_path, "a.runconfig").problems() == []


def test_no_project_findings_outside_a_project() -> None:
    assert document("Target: nowhere\nFramework: Python\nCondaDependenciesFile: no.yml\n").problems() == []


@pytest.mark.parametrize(("minutes", "count"), [(4, 0), (5, 1)])
def test_signal_before_the_start_is_reported(tmp_path: Path, minutes: int, count: int) -> None:
    text = f"Target: x\nFramework: Python\nMaxDurationMinutes: 5\nSignalBeforeEndMinutes: {minutes}\n"
    project(tmp_path, a__runconfig=text, x__compute="type: local\n")
    findings = found(tmp_path, "a.runconfig", "early-signal")
    assert [(each.severity, each.line) for each in findings] == [(WARNING, 4)] * count
