"""`.compute` and `.runconfig` files are loaded, or raise one clear error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import corpus
from tui_workbench.config.loading import load_compute, load_run_configuration
from tui_workbench.core.errors import ConfigurationError


def written(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def compute(tmp_path: Path, text: str | bytes) -> str:
    return written(tmp_path / "box.compute", text)


def runconfig(tmp_path: Path, text: str | bytes) -> str:
    return written(tmp_path / "train.runconfig", text)


@pytest.mark.corpus
def test_every_real_file_loads() -> None:
    loaded = 0
    for folder, _, names in os.walk(corpus()):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".compute"):
                assert load_compute(path).type in ("local", "localdocker")
                loaded += 1
            elif name.endswith(".runconfig"):
                assert load_run_configuration(path).target
                loaded += 1
    assert loaded > 50


def test_every_field_of_a_target_is_loaded(tmp_path: Path) -> None:
    target = load_compute(
        compute(
            tmp_path,
            "address: gpu-box:2222\nbaseDockerImage: microsoft/mmlspark:plus-0.7.91\n"
            "nativeSharedDirectory: ~/.azureml/share/\npassword: AzureMlSecret=box#me#0123\nsharedVolumes: true\n"
            "type: remotedocker\nusername: me\nnvidiaDocker: yes\nodd: 0022\n",
        )
    )
    assert target.name == "box"
    assert target.type == "remotedocker"
    assert target.address == "gpu-box:2222"
    assert target.username == "me"
    assert target.password == "AzureMlSecret=box#me#0123"
    assert target.base_docker_image == "microsoft/mmlspark:plus-0.7.91"
    assert target.native_shared_directory == "~/.azureml/share/"
    assert target.shared_volumes is True
    assert target.nvidia_docker is True
    assert target.values["odd"] == "0022"
    assert list(target.values) == [
        "address",
        "baseDockerImage",
        "nativeSharedDirectory",
        "password",
        "sharedVolumes",
        "type",
        "username",
        "nvidiaDocker",
        "odd",
    ]


def test_target_has_defaults(tmp_path: Path) -> None:
    target = load_compute(compute(tmp_path, "type: local\n"))
    assert target.python_location == "python"
    assert target.shared_volumes is None
    assert target.native_shared_directory == ""
    assert target.nvidia_docker is False
    assert target.user_managed_environment is True


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("type: docker\nbaseDockerImage: i\n", "localdocker"),
        ('type: "localdocker"\nbaseDockerImage: i\n', "localdocker"),
        ("type: LocalDocker\nbaseDockerImage: i\n", "localdocker"),
        ("cluster: True\naddress: h\n", "cluster"),
        ("native: true\naddress: h\n", "cluster"),
        ('{"type": "local"}', "local"),
        ("﻿type: local\r\n# a comment with a\ttab\r\n", "local"),
        ("---\ntype: local\n...\n", "local"),
        ("...\ntype: local\n...\n", "local"),
        ("<<: {type: local}\n", "local"),
        ("type: remote\naddress: h\ncontainer: pyxis\n", "remote"),
    ],
)
def test_old_and_unusual_forms_of_a_target_are_loaded(tmp_path: Path, text: str, meant: str) -> None:
    assert load_compute(compute(tmp_path, text)).type == meant


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf_16_with_a_byte_order_mark_is_loaded(tmp_path: Path, mark: bytes) -> None:
    encoding = "utf-16-le" if mark == b"\xff\xfe" else "utf-16-be"
    assert load_compute(compute(tmp_path, mark + "type: local\n".encode(encoding))).type == "local"


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("", 1, 1, "`type` is missing"),
        ("# nothing\n", 1, 1, "`type` is missing"),
        ("pythonLocation: python\n", 1, 1, "`type` is missing"),
        ("type:\n", 1, 6, "`type` has no value"),
        ("type: foo\n", 1, 7, "cannot be '"),
        ("type: [local]\n", 1, 7, "is a list, expected one of"),
        ("type: local\npythonLocation: {a: b}\n", 2, 17, "is a map, expected text"),
        ("type: localdocker\n", 1, 1, "`baseDockerImage` is missing (required for a localdocker target)"),
        ("type: remotedocker\nbaseDockerImage: i\n", 1, 1, "`address` is missing"),
        ("type: localdocker\nbaseDockerImage: i\nnvidiaDocker: maybe\n", 3, 15, "expected true or false"),
        ("type: local\ntype: local\n", 2, 1, "duplicate key"),
        ("- type: local\n", 1, 1, "contains a list"),
        ("local\n", 1, 1, "contains a single value"),
        ("type: local\n\tpythonLocation: x\n", 2, 1, "tab"),
        ("type:local\n", 1, 6, "no space after the colon"),
        ("type: local\n...\naddress: x\n", 2, 1, "ends the document"),
        ("type: local\n---\ntype: remote\n", 2, 1, "ends the document"),
    ],
)
def test_invalid_target_raises_with_position(tmp_path: Path, text: str, line: int, column: int, said: str) -> None:
    path = compute(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        load_compute(path)
    error = caught.value
    assert said in error.message
    assert (error.file, error.line, error.column) == (path, line, column)
    assert error.remedy.endswith(".")
    assert "\n" not in str(error)


def test_every_field_of_a_run_configuration_is_loaded(tmp_path: Path) -> None:
    loaded = load_run_configuration(
        runconfig(
            tmp_path,
            "ArgumentVector:\n- train.py\n- --epochs=10\n- 0022\n- no\n- 1.0\nTarget: "
            "box\nEnvironmentVariables:\n  A: no\n  B: 0022\n"
            "  C:\nFramework: Python\nCondaDependenciesFile: a.yml\nSparkDependenciesFile: "
            "b.yml\nPrepareEnvironment: true\n"
            "TrackedRun: false\nUseSampling: false\nDataSourceSettings: {my.dsource: {Sampling: {Sample: Full}}}\n",
        )
    )
    assert loaded.name == "train"
    assert loaded.target == "box"
    assert loaded.argument_vector == ("train.py", "--epochs=10", "0022", "no", "1.0")
    assert loaded.environment_variables == {"A": "no", "B": "0022", "C": ""}
    assert loaded.framework == "Python"
    assert (loaded.conda_dependencies_file, loaded.spark_dependencies_file) == ("a.yml", "b.yml")
    assert (loaded.prepare_environment, loaded.tracked_run) == (True, False)
    assert loaded.values["DataSourceSettings"] == {"my.dsource": {"Sampling": {"Sample": "Full"}}}
    assert loaded.values["ArgumentVector"] == ["train.py", "--epochs=10", "0022", "no", "1.0"]


def test_merge_key_below_the_top_of_a_file_is_refused(tmp_path: Path) -> None:
    text = "base: &base {A: 1}\nTarget: box\nEnvironmentVariables:\n  <<: *base\n  B: 2\n"
    with pytest.raises(ConfigurationError, match="`<<` in `EnvironmentVariables` is not supported") as caught:
        load_run_configuration(runconfig(tmp_path, text))
    assert caught.value.remedy == "Write the included entries here instead."
    assert caught.value.line == 4


def test_run_configuration_has_defaults(tmp_path: Path) -> None:
    loaded = load_run_configuration(runconfig(tmp_path, "Target: box\nEnvironmentVariables: null\n"))
    assert loaded.argument_vector == ("$file",)
    assert loaded.environment_variables == {}
    assert loaded.framework == "PySpark"
    assert loaded.prepare_environment is False
    assert loaded.tracked_run is True


def test_json_form_before_september_2017_is_loaded(tmp_path: Path) -> None:
    loaded = load_run_configuration(
        runconfig(
            tmp_path,
            '{"Description":"x","ArgumentVector":["$file"],"CondaFile":"env.yml","ManagedEnvironment":true,'
            '"TrackedRun":true,"Target":"docker","PrepareEnvironment":true,"Framework":"Python"}',
        )
    )
    assert loaded.target == "docker"
    assert loaded.conda_dependencies_file == "env.yml"
    assert loaded.framework == "Python"


def test_form_of_the_sdk_is_loaded(tmp_path: Path) -> None:
    loaded = load_run_configuration(
        runconfig(
            tmp_path,
            "script: train.py\narguments: [--lr, 0.1]\ntarget: box\nframework: Python\nprepareEnvironment: true\n"
            "environment:\n  environmentVariables: {A: 1}\n  python:\n    condaDependenciesFile: e.yml\n"
            "history:\n  enabled: false\n",
        )
    )
    assert loaded.target == "box"
    assert loaded.argument_vector == ("train.py", "--lr", "0.1")
    assert loaded.environment_variables == {"A": "1"}
    assert loaded.conda_dependencies_file == "e.yml"
    assert (loaded.framework, loaded.prepare_environment, loaded.tracked_run) == ("Python", True, False)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("Framework: Python\n", 1, "`Target` is missing"),
        ("Target:\n", 1, "`Target` has no value"),
        ("Target: x\nArgumentVector: $file\n", 2, "expected a list of strings"),
        ("Target: x\nArgumentVector:\n- a: b\n", 3, "item 1 of `ArgumentVector` is a map"),
        ("Target: x\nArgumentVector:\n- a\n-\n", 4, "item 2 of `ArgumentVector` is empty"),
        ("Target: x\nEnvironmentVariables: [a]\n", 2, "expected a map of strings"),
        ("Target: x\nEnvironmentVariables:\n  A: [1]\n", 3, "`A` in `EnvironmentVariables` is a list"),
        ("Target: x\nEnvironmentVariables:\n  A: 1\n  A: 2\n", 4, "duplicate key"),
        ("Target: x\nFramework: Spark\n", 2, "cannot be '"),
        ("Target: x\nFramework:Python\nTrackedRun: true\n", 2, "no space after the colon"),
    ],
)
def test_invalid_run_configuration_raises_with_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_run_configuration(runconfig(tmp_path, text))
    assert said in caught.value.message
    assert caught.value.line == line


def test_other_files_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.compute"
    os.mkfifo(pipe)
    for path, said in [
        (tmp_path / "none.compute", "no such file"),
        (tmp_path, "folder"),
        (pipe, "not a regular file"),
    ]:
        with pytest.raises(ConfigurationError, match=said) as caught:
            load_compute(str(path))
        assert caught.value.file == str(path)
        assert caught.value.exit_code == 3


def test_binary_file_is_refused_at_its_first_byte(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="0xf6") as caught:
        load_compute(compute(tmp_path, b"# caf\xc3\xa9\ntype: l\xf6cal\n"))
    assert (caught.value.line, caught.value.column) == (2, 8)
    with pytest.raises(ConfigurationError, match="0x00"):
        load_compute(compute(tmp_path, b"type: local\0\n"))


def test_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "big.compute"
    with open(path, "wb") as file:
        file.truncate(10_000_000)
    with pytest.raises(ConfigurationError, match="the file has 10,000,000 bytes"):
        load_compute(str(path))
