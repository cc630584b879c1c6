"""Functions behind the commands for configuration files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.config.documents import project
from tui_workbench.config.changes import file_edits
from tui_workbench.config.changes.gpu_ready import make_gpu_ready
from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE
from tui_workbench.core.errors import ConfigurationError, UsageError

COMPUTE = f'type: "localdocker"  # here\nbaseDockerImage: "{DEFAULT_GPU_IMAGE}"\n'
RUNCONFIG = "Target: box\nFramework: Python\nPrepareEnvironment: true\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return project(
        tmp_path,
        box__compute=COMPUTE,
        box__runconfig=RUNCONFIG,
        conda_dependencies__yml="dependencies:\n- python=3.5\n- os\n- pip:\n  - keras\n",
        notes__txt="no configuration",
        other__yml="key: value\n",
    )


def at(root: Path, name: str) -> str:
    return str(root / "aml_config" / name)


# -- check -----------------------------------------------------------------------------------------------------------


def test_all_files_of_a_project_are_checked(root: Path) -> None:
    files = file_edits.configuration_files(str(root))
    assert [Path(path).name for path in files] == ["box.compute", "box.runconfig", "conda_dependencies.yml"]
    assert [(Path(one.file).name, one.code, one.severity) for one in file_edits.check(files)] == [
        ("box.compute", "gpu-unused", "warning"),
        ("conda_dependencies.yml", "standard-library", "error"),
    ]


def test_configuration_files_include_dependency_files(root: Path) -> None:
    (root / "env.yml").write_text("dependencies:\n- json\n")
    (root / "aml_config" / "x.runconfig").write_text(RUNCONFIG + "CondaDependenciesFile: env.yml\n")
    files = file_edits.configuration_files(str(root))
    assert str(root / "env.yml") in files
    assert [one.code for one in file_edits.check([str(root / "env.yml")])] == ["standard-library"]


def test_valid_file_has_no_findings(root: Path) -> None:
    assert file_edits.check([at(root, "box.runconfig")]) == []


def test_unreadable_file_is_a_finding(root: Path) -> None:
    (root / "aml_config" / "bad.compute").write_bytes(b"type: \xff\n")
    big = root / "aml_config" / "big.compute"
    with open(big, "wb") as file:
        file.truncate(10_000_000)
    found = file_edits.check(file_edits.configuration_files(str(root)))
    refused = {Path(one.file).name: (one.line, one.column, one.message) for one in found if one.code == "refused"}
    assert refused["bad.compute"] == (1, 7, "the byte 0xff is not allowed in a UTF-8 text file")
    assert "10,000,000 bytes" in refused["big.compute"][2]


# -- get, set, unset -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("box.compute", "type", "localdocker"),
        ("box.compute", "nvidiaDocker", False),
        ("box.runconfig", "PrepareEnvironment", True),
        ("box.runconfig", "ArgumentVector", ["$file"]),
        ("conda_dependencies.yml", "dependencies", ["python=3.5", "os", {"pip": ["keras"]}]),
        ("conda_dependencies.yml", "dependencies.pip[0]", "keras"),
    ],
)
def test_get_returns_the_typed_value_or_default(root: Path, name: str, key: str, value: Any) -> None:
    assert file_edits.get(at(root, name), key) == value


def test_get_of_an_unset_field_lists_those_that_are_set(root: Path) -> None:
    with pytest.raises(UsageError) as caught:
        file_edits.get(at(root, "box.runconfig"), "Nope")
    assert (
        str(caught.value) == "Nope is not set in box.runconfig. "
        "Choose a field that has a value. Fields with a value: Target, Framework, PrepareEnvironment."
    )


@pytest.mark.parametrize(
    ("name", "key", "text", "after"),
    [
        ("box.compute", "type", "local", COMPUTE.replace('"localdocker"', '"local"')),
        ("box.compute", "type", "DOCKER", COMPUTE),
        ("box.compute", "nvidiaDocker", "yes", COMPUTE + "nvidiaDocker: true\n"),
        ("box.runconfig", "Target", "no", RUNCONFIG.replace("box", '"no"')),
        (
            "box.runconfig",
            "ArgumentVector",
            "[train.py, --lr, 0.1, no]",
            'ArgumentVector:\n  - train.py\n  - --lr\n  - "0.1"\n  - "no"\n' + RUNCONFIG,
        ),
        ("box.runconfig", "ArgumentVector[0]", "train.py", "ArgumentVector:\n  - train.py\n" + RUNCONFIG),
        (
            "box.runconfig",
            "EnvironmentVariables.spark.x",
            "0022",
            RUNCONFIG.replace("Fram", 'EnvironmentVariables:\n  spark.x: "0022"\nFram'),
        ),
        (
            "box.runconfig",
            "EnvironmentVariables",
            "{A: 1}",
            RUNCONFIG.replace("Fram", 'EnvironmentVariables:\n  A: "1"\nFram'),
        ),
        (
            "box.runconfig",
            "DataSourceSettings",
            "{a: {Sample: x}}",
            RUNCONFIG + "DataSourceSettings:\n  a:\n    Sample: x\n",
        ),
        (
            "conda_dependencies.yml",
            "dependencies[1]",
            "numpy",
            "dependencies:\n- python=3.5\n- numpy\n- pip:\n  - keras\n",
        ),
        (
            "conda_dependencies.yml",
            "dependencies.pip[1]",
            "h5py",
            "dependencies:\n- python=3.5\n- os\n- pip:\n  - keras\n  - h5py\n",
        ),
    ],
)
def test_set_parses_text_by_the_type_of_the_field(root: Path, name: str, key: str, text: str, after: str) -> None:
    result = file_edits.set_text(at(root, name), key, text)
    assert (root / "aml_config" / name).read_text() == after
    assert result.changed == (after != {"box.compute": COMPUTE}.get(name))


@pytest.mark.parametrize(
    ("name", "key", "text", "said"),
    [
        ("box.compute", "nvidiaDocker", "maybe", "nvidiaDocker must be true or false, not 'maybe'"),
        ("box.compute", "type", "cloud", "type cannot be 'cloud'. Choose one of: local, localdocker"),
        (
            "box.compute",
            "nvidiadocker",
            "true",
            "unknown field 'nvidiadocker' in box.compute. Did you mean 'nvidiaDocker'?",
        ),
        ("box.compute", "zzz", "true", "unknown field 'zzz' in box.compute. Use one of: type"),
        (
            "box.runconfig",
            "ArgumentVector",
            "train.py",
            "ArgumentVector must be a list of strings. Write the value in brackets",
        ),
        ("box.runconfig", "ArgumentVector", "[a", "Write the value in brackets, as in '[a, b]'."),
        ("box.runconfig", "EnvironmentVariables", "[a]", "a map of strings"),
        ("box.runconfig", "ArgumentVector[3]", "x", "the list for"),
        ("box.runconfig", "a..b", "x", "is not a valid key"),
    ],
)
def test_invalid_set_raises_and_keeps_the_file(root: Path, name: str, key: str, text: str, said: str) -> None:
    before = (root / "aml_config" / name).read_bytes()
    with pytest.raises((UsageError, ConfigurationError)) as caught:
        file_edits.set_text(at(root, name), key, text)
    assert said in str(caught.value)
    assert (root / "aml_config" / name).read_bytes() == before


def test_set_any_key_allows_unknown_keys(root: Path) -> None:
    result = file_edits.set_text(at(root, "box.compute"), "own.key", "[1, no]", any_key=True)
    assert (root / "aml_config" / "box.compute").read_text() == COMPUTE + 'own:\n  key:\n    - 1\n    - "no"\n'
    assert (result.old, result.new) == (None, [1, "no"])
    # Once the file exists, there is no finding.
    file_edits.set_text(at(root, "box.compute"), "own.key[0]", "2")


def test_messages_hide_passwords(root: Path) -> None:
    path = root / "aml_config" / "far.compute"
    path.write_text("type: remote\naddress: h\npassword: hunter2\n")
    result = file_edits.set_text(str(path), "password", "hunter3")
    assert (result.old, result.new) == ("(hidden)", "(hidden)")
    reference = "AzureMlSecret=far#me#0123"
    assert file_edits.set_text(str(path), "password", reference).new == reference


def test_unset_removes_one_key(root: Path) -> None:
    result = file_edits.unset(at(root, "box.runconfig"), "Framework")
    assert (result.old, result.new, result.changed) == ("Python", None, True)
    assert (root / "aml_config" / "box.runconfig").read_text() == "Target: box\nPrepareEnvironment: true\n"
    with pytest.raises(UsageError, match="not set"):
        file_edits.unset(at(root, "box.runconfig"), "Framework")


def test_broken_file_is_not_edited(root: Path) -> None:
    path = root / "aml_config" / "box.runconfig"
    path.write_text("Target: 'box\n")
    with pytest.raises(ConfigurationError) as caught:
        file_edits.set_text(str(path), "Target", "x")
    assert (caught.value.line, caught.value.column) == (1, 9)
    with pytest.raises(ConfigurationError, match="quote that begins here"):
        file_edits.unset(str(path), "Target")


# -- fix -------------------------------------------------------------------------------------------------------------


def test_fix_applies_fixes_that_need_no_decision(root: Path) -> None:
    path = root / "aml_config" / "all.compute"
    path.write_text(
        f"type:docker\nbaseDockerImage: {DEFAULT_GPU_IMAGE}\nsharedVolumes: false\nnativeSharedDirectory: "
        f"~/x\npassword: hunter2\n"
    )
    result = file_edits.fix(str(path))
    assert result.fixed == ("add a space after the colon", "set nvidiaDocker: true")
    assert path.read_text() == (
        f"type: docker\nbaseDockerImage: {DEFAULT_GPU_IMAGE}\nnvidiaDocker: true\nsharedVolumes: false\n"
        "nativeSharedDirectory: ~/x\npassword: hunter2\n"
    )
    assert [one.code for one in result.left] == ["old-form", "no-effect", "plain-password"]
    assert result.left[-1].severity == "error"
    # Fixes that need a decision, and advice, are applied only if their code is given.
    assert file_edits.fix(str(path), code="plain-password").fixed == ("remove the password",)
    assert file_edits.fix(str(path), code="old-form").fixed == ("write localdocker",)
    assert file_edits.fix(str(path)).fixed == ()


def test_dry_run_changes_nothing(root: Path) -> None:
    result = file_edits.fix(at(root, "conda_dependencies.yml"), dry_run=True)
    assert result.fixed == ("remove os",)
    assert "-- os\n" in result.diff
    assert "- os\n" in (root / "aml_config" / "conda_dependencies.yml").read_text()


def test_unknown_code_raises_usage_error(root: Path) -> None:
    with pytest.raises(UsageError, match="unknown finding code 'nope'"):
        file_edits.fix(at(root, "box.compute"), code="nope")


# -- gpu-ready -------------------------------------------------------------------------------------------------------


def test_gpu_ready_changes_or_shows(root: Path) -> None:
    shown = make_gpu_ready(str(root), "box", dry_run=True)
    assert "+nvidiaDocker: true" in shown.diff
    assert not shown.applied
    assert (root / "aml_config" / "box.compute").read_text() == COMPUTE
    done = make_gpu_ready(str(root), "box")
    assert (done.applied, done.diff) == (True, shown.diff)
    again = make_gpu_ready(str(root), "box")
    assert (again.applied, again.diff, again.plan.is_done) == (False, "", True)


def test_gpu_ready_without_some_changes(root: Path) -> None:
    result = make_gpu_ready(str(root), "box", without=["nvidiaDocker"])
    assert not result.applied
    with pytest.raises(UsageError, match=r"the plan has no change 'nope'. Choose one of: nvidiaDocker"):
        make_gpu_ready(str(root), "box", without=["nope"])


def test_find_file_accepts_paths_and_names(root: Path) -> None:
    (root / "env.yml").write_text("")
    assert file_edits.find_file("box.compute", str(root)) == at(root, "box.compute")
    assert file_edits.find_file("env.yml", str(root)) == str(root / "env.yml")
    assert file_edits.find_file(at(root, "box.compute"), None) == at(root, "box.compute")
    assert file_edits.find_file("none.compute", str(root)) == "none.compute"


@pytest.mark.slow
def test_concurrent_edits_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.runconfig"
    path.write_text("Target: local\nFramework: Python\n")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _SETS_MANY, str(path), str(number)], stdout=subprocess.PIPE, stdin=subprocess.PIPE
        )
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    for writer in writers:
        assert writer.wait() == 0
        assert writer.stdout is not None
        writer.stdout.close()
    variables = file_edits.get(str(path), "EnvironmentVariables")
    assert variables == {f"V{number}_{turn}": "x" for number in range(4) for turn in range(15)}


_SETS_MANY = """
import sys
from tui_workbench.config.changes import file_edits
print("ready", flush=True)
sys.stdin.read()
for turn in range(15):
    file_edits.set_text(sys.argv[1], f"EnvironmentVariables.V{sys.argv[2]}_{turn}", "x")
"""


def test_missing_file_is_fixed_only_with_the_same_name(tmp_path: Path) -> None:
    project(
        tmp_path,
        a__runconfig="Target: t\nFramework: PySpark\nSparkDependenciesFile: Config/hdi_spark_dependencies.yml\n",
        b__runconfig="Target: t\nFramework: PySpark\nSparkDependenciesFile: Config/other_spark.yml\n",
        t__compute="type: local\n",
        dsvm_spark_dependencies__yml="configuration: {}\n",
        hdi_spark_dependencies__yml="configuration: {}\n",
    )
    folder = tmp_path / "aml_config"
    result = file_edits.fix(str(folder / "a.runconfig"))
    assert result.fixed == ("set SparkDependenciesFile: aml_config/hdi_spark_dependencies.yml",)
    before = (folder / "b.runconfig").read_text()
    asked = file_edits.fix(str(folder / "b.runconfig"))
    assert (asked.fixed, (folder / "b.runconfig").read_text()) == ((), before)
    (left,) = (one for one in asked.left if one.code == "missing-file")
    assert left.remedy.startswith("Did you mean 'aml_config/dsvm_spark_dependencies.yml' or 'aml_config/hdi_sp")
