"""`config`: output, exit codes and changed files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.config.documents import project
from tests.faults.support import Workbench
from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE

COMPUTE = f'type: "localdocker"\r\nbaseDockerImage: "{DEFAULT_GPU_IMAGE}"\r\n# end'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return project(
        tmp_path, box__compute=COMPUTE, box__runconfig="Target: box\nFramework: Python\nPrepareEnvironment: true\n"
    )


def config(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code, out, err = Workbench(root).run("config", *words)
    return subprocess.CompletedProcess(words, code, out, err)


def result(root: Path, *words: str) -> Any:
    return json.loads(config(root, *words, "-o", "json").stdout)


def test_check_prints_findings_and_a_summary(root: Path) -> None:
    done = config(root, "check")
    path = root / "aml_config" / "box.compute"
    assert done.stdout == (
        f"{path}:2:18: warning: the image has CUDA, but without nvidiaDocker: true the container gets no GPU. "
        "Set `nvidiaDocker: true`, or use an image without CUDA. (gpu-unused) [fix: set nvidiaDocker: true]\n"
        "2 files: 0 errors, 1 piece of advice\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_check_prints_json_and_exits_with_3(root: Path) -> None:
    (root / "aml_config" / "box.runconfig").write_text("Target: bx\nFramework:Python\n")
    done = config(root, "check", "box.runconfig", "-o", "json")
    assert done.returncode == 3
    assert json.loads(done.stdout) == [
        {
            "file": str(root / "aml_config" / "box.runconfig"),
            "line": 2,
            "column": 11,
            "severity": "error",
            "code": "missing-space",
            "message": "`Framework:Python` has no space after the colon",
            "remedy": "Add a space.",
            "fix": "add a space after the colon",
        }
    ]
    assert result(root, "check", "--query", "[].code") == ["gpu-unused", "missing-space"]


def test_get_set_and_unset_keep_other_bytes(root: Path) -> None:
    path = root / "aml_config" / "box.compute"
    assert config(root, "get", "box.compute", "type").stdout == "localdocker\n"
    assert config(root, "set", "box.compute", "nvidiaDocker", "true").stdout == "nvidiaDocker: not set -> true\n"
    assert path.read_bytes() == COMPUTE.replace("# end", "nvidiaDocker: true\r\n# end").encode()
    assert config(root, "set", str(path), "nvidiaDocker", "true").stdout == "nvidiaDocker: unchanged\n"
    assert result(root, "unset", "box.compute", "nvidiaDocker")["changed"] is True
    assert path.read_bytes() == COMPUTE.encode()


def test_fix_applies_fixes_once(root: Path) -> None:
    shown = config(root, "fix", "box.compute", "--dry-run")
    assert "+nvidiaDocker: true\n" in shown.stdout
    assert "would fix: set nvidiaDocker: true\n" in shown.stdout
    assert (root / "aml_config" / "box.compute").read_bytes() == COMPUTE.encode()
    assert config(root, "fix", "box.compute").stdout == "fixed: set nvidiaDocker: true\n"
    assert config(root, "fix", "box.compute").stdout == "nothing to fix\n"


def test_gpu_ready_changes_the_files_once(root: Path) -> None:
    plan = result(root, "gpu-ready", "box", "--dry-run")
    assert [change["id"] for change in plan["changes"]] == ["nvidiaDocker"]
    assert plan["images"][0]["reference"] == DEFAULT_GPU_IMAGE
    assert plan["applied"] is False
    done = config(root, "gpu-ready", "box")
    assert "+nvidiaDocker: true\n" in done.stdout
    assert done.stdout.endswith("box is GPU-ready\n")
    assert config(root, "gpu-ready", "box").stdout.endswith("box is already GPU-ready\n")


def test_gpu_ready_lists_skipped_changes(root: Path) -> None:
    done = config(root, "gpu-ready", "box", "--without", "nvidiaDocker")
    assert "skipped nvidiaDocker: true [nvidiaDocker]" in done.stdout
    assert (root / "aml_config" / "box.compute").read_bytes() == COMPUTE.encode()


def test_schema_is_printed(root: Path) -> None:
    assert {*result(root, "schema")} == {"compute", "runconfig", "conda", "spark", "settings", "agents"}
    assert config(root, "schema").stdout == config(root, "schema", "-o", "json").stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("get", "none.compute", "type"), 2, "no file 'none.compute'"),
        (("get", "box.compute", "nope"), 2, "nope is not set in box.compute"),
        (("set", "box.compute", "nvidiaDocker", "maybe"), 2, "must be true or false"),
        (("set", "box.compute"), 2, "required: KEY, VALUE"),
        (("gpu-ready", "none"), 2, "unknown target or run configuration 'none'. Choose one of: box."),
        (("fix", "box.compute", "--code", "x"), 2, "unknown finding code 'x'"),
        (("frob",), 2, "unknown command 'config frob'"),
    ],
)
def test_wrong_usage_is_one_line(root: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = config(root, *words)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_broken_file_is_one_line_with_its_position(root: Path) -> None:
    (root / "aml_config" / "box.runconfig").write_text("Target: 'box\n")
    done = config(root, "set", "box.runconfig", "Target", "x")
    assert done.returncode == 3
    assert done.stderr == (
        f"workbench-tui: {root}/aml_config/box.runconfig:1:9: "
        "the quote that begins here is not closed. Close the quote.\n"
    )


def test_files_cannot_send_terminal_sequences(root: Path) -> None:
    (root / "aml_config" / "box.compute").write_text('type: "local\\e]0;title\\x07"\n')
    done = config(root, "check", "box.compute")
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_files_outside_a_project_are_checked_and_edited(tmp_path: Path) -> None:
    (tmp_path / "a.compute").write_text("type: local\n")
    assert config(tmp_path, "check", "a.compute").returncode == 0
    assert config(tmp_path, "set", "a.compute", "type", "remote").returncode == 0
    assert config(tmp_path, "check").returncode == 2
    assert (tmp_path / "a.compute").read_text() == "type: remote\n"


def test_null_removes_the_value_unless_quoted(root: Path) -> None:
    path = root / "aml_config" / "n.runconfig"
    path.write_text("Target: box\nDescription: x\n")
    assert config(root, "set", "n.runconfig", "Description", "null").returncode == 0
    assert path.read_text() == "Target: box\nDescription: null\n"
    assert config(root, "get", "n.runconfig", "Description").stdout == "null\n"
    assert config(root, "set", "n.runconfig", "Description", '"null"').returncode == 0
    assert path.read_text() == 'Target: box\nDescription: "null"\n'
    assert config(root, "get", "n.runconfig", "Description").stdout == '"null"\n'


def test_pip_packages_are_set_as_a_list(root: Path) -> None:
    path = root / "aml_config" / "conda_dependencies.yml"
    path.write_text("dependencies:\n- python=3.5\n- pip:\n  - keras\n")
    assert config(root, "set", path.name, "dependencies.pip", "[keras, numpy]").returncode == 0
    assert path.read_text() == "dependencies:\n- python=3.5\n- pip:\n  - keras\n  - numpy\n"


def test_gpu_ready_reports_remaining_problems(root: Path) -> None:
    path = root / "aml_config" / "box.runconfig"
    path.write_text(path.read_text() + "TrackedRun: 7\n")
    done = config(root, "gpu-ready", "box")
    last = done.stdout.splitlines()[-2:]
    assert last[0].startswith(f"left: {path}:4:13: error: `TrackedRun` is '7'")
    assert last[1] == "box is not GPU-ready: 1 problem left"
    assert done.returncode == 3
    again = result(root, "gpu-ready", "box")
    assert (again["changes"], [one["code"] for one in again["left"]]) == ([], ["wrong-type"])
    assert config(root, "gpu-ready", "box").stdout.endswith("box is not GPU-ready: 1 problem left\n")


def test_gpu_ready_reports_a_broken_run_configuration(root: Path) -> None:
    (root / "aml_config" / "other.runconfig").write_text("Target: [box\n")
    done = config(root, "gpu-ready", "box")
    assert done.stdout.endswith("box is not GPU-ready: 1 problem left\n")
    assert (done.returncode, "a comma is missing" in done.stdout) == (3, True)


def test_fix_names_codes_that_need_a_decision(root: Path) -> None:
    path = root / "aml_config" / "box.compute"
    path.write_text("type: remote\naddress: h\npassword: hunter2\n")
    done = config(root, "fix", "box.compute")
    assert done.stdout.endswith("nothing was fixed; apply the suggested fixes with --code plain-password\n")
    path.write_text("type: remote\naddress: <ipAddress>\n")
    assert config(root, "fix", "box.compute").stdout.endswith("these findings have no automatic fix\n")
    path.write_text("type: remote\naddress: h\n")
    assert config(root, "fix", "box.compute").stdout == "nothing to fix\n"


def test_gpu_ready_reports_unknown_cuda(root: Path) -> None:
    (root / "aml_config" / "own.compute").write_text("type: local\n")
    (root / "aml_config" / "own.runconfig").write_text("Target: own\nFramework: Python\n")
    done = config(root, "gpu-ready", "own")
    assert done.stdout.splitlines()[-1] == (
        "own: nothing to change, but the files do not show whether its runs have CUDA"
    )
    assert done.returncode == 0
