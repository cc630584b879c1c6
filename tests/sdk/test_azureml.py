"""The `azureml` modules of the SDK: existing scripts run unchanged, and a real azureml package comes first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sdk.support import logged, script

IRIS = """\
from azureml.logging import get_azureml_logger
run_logger = get_azureml_logger()
run_logger.log('amlrealworld.Iris', 'true')
reg = 0.01
run_logger.log("Regularization Rate", reg)
run_logger.log("Accuracy", 0.679)
run_logger.log("Precision", [0.1, 0.9])
run_logger.upload("outputs/model.txt", "weights")
run_logger.wait()
"""
"""Log like the sample of Azure ML Workbench."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


def test_azureml_script_logs_without_changes(run: Path) -> None:
    script(IRIS, run)
    assert logged(run) == [
        {"name": "amlrealworld.Iris", "step": None, "value": "true"},
        {"name": "Regularization Rate", "step": None, "value": 0.01},
        {"name": "Accuracy", "step": None, "value": 0.679},
        {"kind": "list", "name": "Precision", "step": None, "value": [0.1, 0.9]},
        {"kind": "upload", "name": "model.txt", "path": "outputs/model.txt"},
    ]
    assert (run / "outputs" / "model.txt").read_text() == "weights"


def test_data_sources_fail_with_the_replacement(run: Path, tmp_path: Path) -> None:
    ask = (
        "try: from azureml.dataprep import datasource\nexcept ImportError as error: print(error)\nelse: print('real')\n"
    )
    assert "read the file with pandas" in script(ask, run)
    real = write(tmp_path / "real", {"azureml/__init__.py": "", "azureml/dataprep/__init__.py": "datasource = 1\n"})
    assert script(ask, run, real) == "real\n"


RUN = """\
from azureml.core.run import Run
from azureml.core import Run as same
assert Run is same
run = Run.get_submitted_run()
run.log("loss", 0.5)
run.log("loss", 0.4, description="d", step=7)
run.log_list("curve", [1, 2], "d")
run.log_row("epoch", description="d", loss=0.5, note="first")
run.log_table("table", {"a": [1, 2]})
run.log_confusion_matrix("cm", {"schema_type": "confusion_matrix", "data": {"class_labels": ["x"], "matrix": [[3]]}})
open("plot.png", "w").close()
run.log_image("plot", path="plot.png")
open("model.pt", "w").close()
run.upload_file("outputs/m.pt", "model.pt")
run.tag("best"); run.set_tags({"a": 1})
assert run.get_tags() == {"best": None, "a": "1"}
run.log("odd", object)
Run.get_context().complete()
print(run.id)
"""


def test_run_has_all_log_methods_of_the_sdk(run: Path, tmp_path: Path) -> None:
    assert script(RUN, run, directory=tmp_path) == "OfflineRun\n"
    records = logged(run)
    assert [(record.get("kind", "scalar"), record["name"]) for record in records] == [
        ("scalar", "loss"), ("scalar", "loss"), ("list", "curve"), ("row", "epoch"), ("table", "table"),
        ("confusion", "cm"), ("image", "plot"), ("upload", "m.pt"), ("tag", "best"), ("tag", "a"), ("scalar", "odd"),
    ]  # fmt: skip
    assert records[1]["step"] == 7
    assert records[3]["value"] == {"loss": 0.5, "note": "first"}
    assert records[5]["value"] == {"labels": ["x"], "matrix": [[3]]}
    assert records[-1]["value"] == "<class 'object'>"


def test_run_context_outside_a_run_is_offline_or_fails(tmp_path: Path) -> None:
    script(RUN, None, directory=tmp_path)
    ask = "from azureml.core.run import Run\ntry: Run.get_context(allow_offline=False)\n"
    refused = f"{ask}except RuntimeError as error: print(error)"
    assert script(refused, None) == "not in a run of the workbench: submit the script, or set allow_offline=True\n"


# A real azureml package


def write(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


REAL_RUN = "class Run:\n    @classmethod\n    def get_context(cls): return 'the real one'\n"
ASK = """\
import json, azureml.core.run, azureml.logging
print(json.dumps([azureml.core.run.Run.get_context(), azureml.logging.__name__, getattr(azureml, "VERSION", None)]))
"""


def test_real_azureml_comes_first_and_is_completed(run: Path, tmp_path: Path) -> None:
    real = write(
        tmp_path / "site",
        {"azureml/__init__.py": "VERSION = '1.0'\n", "azureml/core/__init__.py": "", "azureml/core/run.py": REAL_RUN},
    )
    assert json.loads(script(ASK, run, real)) == ["the real one", "azureml.logging", "1.0"]


def test_real_namespace_package_comes_first(run: Path, tmp_path: Path) -> None:
    """The real distributions are parts of a namespace package."""
    first = write(tmp_path / "one", {"azureml/core/__init__.py": "", "azureml/core/run.py": REAL_RUN})
    second = write(tmp_path / "two", {"azureml/train.py": "NAME = 'train'\n"})
    assert json.loads(script(ASK, run, first, second)) == ["the real one", "azureml.logging", None]
    assert script("import azureml.train; print(azureml.train.NAME)", run, first, second) == "train\n"


def test_real_old_style_namespace_package_comes_first(run: Path, tmp_path: Path) -> None:
    extend = "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"
    first = write(
        tmp_path / "one",
        {"azureml/__init__.py": extend, "azureml/core/__init__.py": "", "azureml/core/run.py": REAL_RUN},
    )
    second = write(tmp_path / "two", {"azureml/__init__.py": extend, "azureml/train.py": "NAME = 'train'\n"})
    assert json.loads(script(ASK, run, first, second)) == ["the real one", "azureml.logging", None]
    assert script("import azureml.train; print(azureml.train.NAME)", run, first, second) == "train\n"


def test_sdk_folder_twice_on_the_path_is_not_a_real_package(run: Path, tmp_path: Path) -> None:
    from tui_workbench.targets.values import SDK_FOLDER

    (tmp_path / "link").symlink_to(SDK_FOLDER)
    script(IRIS, run, SDK_FOLDER, str(tmp_path / "link"))
    assert len(logged(run)) == 5
