"""The JSON output of every command is as docs/reference/json.md describes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs.json_outputs import WITHOUT_JSON
from docs.json_page import outputs, types
from tests import json_output
from tests.cli.support import Installed, options_of
from tests.json_output import check_value
from tests.runs.support import write_configuration, write_files
from tui_workbench.cli import COMMANDS, JSON_SCHEMA

NEED_MORE = """\
agent approve
agent deny
agent show
computetarget disconnect
computetarget login
computetarget prepare
experiment prepare
experiment stacks
gpu extend
gpu release
gpu reservations
gpu reserve
history sync
notebook
notify add
notify remove
notify test
open
project clone
""".splitlines()
"""Commands that need a server, another machine or an agent. `Workbench.run` compares their output in other tests."""

LINES = """\
experiment submit -c local --dry-run -o json hello.py
experiment submit -c local --repeat 2 --dry-run -o json hello.py
experiment submit -c local --repeat 2 hello.py --lr 1
experiment submit -c local --repeat 2 hello.py --lr 2
experiment rerun -r 1 --dry-run -o json
experiment sweep -c local --param lr=1,2 --dry-run -o json hello.py
experiment status -r 1
experiment submit -c local --detach hello.py wait
experiment cancel -r 5
experiment resume
experiment collect
experiment clean --dry-run
logs -o json 1
logs -f -o json 1
port list -o json
port close --all -o json
doctor -o json
theme list -o json
theme check dusk -o json
theme use dusk -o json
notify list -o json
agent list -o json
keys -o json
status -o json
trace -o json
trace -f --run 1 -o json
history tag -r 1 best
history note -r 1 text
history pin -r 1
history archive -r 1
history list --all
history families -o json
history last
history info -r 1
history compare 1 2 --all -o json
history compare sweep-1.1 sweep-2.1 -o json
history download -r 1 -d copies
history promote -r 1 -ap outputs/kept.txt -n kept
history export --format csv runs.csv
history export --format mlflow mlruns
history import mlruns
history delete 3 --yes
history restore 3
history purge --yes
asset list
asset download -l assets/kept.link -d assets-copy
computetarget list
computetarget attach localdocker -n docker --no-check -o json
computetarget detach docker -o json
computetarget check local -o json
gpu list --wait 0 -o json
gpu top --wait 0 -o json
gpu check -t local -o json
runconfiguration list
runconfiguration create -n other -t local
runconfiguration delete -n other
config check -o json
config get local.runconfig Target -o json
config set local.runconfig Framework Python -o json
config unset local.runconfig EnvironmentVariables.NO -o json
config fix local.runconfig --dry-run -o json
config gpu-ready local --dry-run -o json
config schema -o json
project create other -o json
project add . -o json
project recent -o json
project restore --run-id 1 --dry-run -o json
project sample list
""".splitlines()


@pytest.fixture
def workbench(project_root: Path) -> Installed:
    return Installed(project_root)


@pytest.mark.processes
def test_each_command_prints_what_the_page_describes(workbench: Installed) -> None:
    write_files(workbench.folder, {"hello.py": HELLO})
    write_configuration(workbench.folder, TrackedRun=True, EnvironmentVariables={"NO": "1"})
    json_output.checked.clear()
    for line in LINES:
        result = workbench.run(*line.split())
        assert result.code in (0, 1, 4), (line, result)
    left = {command.name for command in COMMANDS} - json_output.checked - WITHOUT_JSON.keys()
    assert left == set(NEED_MORE)


HELLO = """\
import os, sys, time, workbench
time.sleep(600 if "wait" in sys.argv else 0)
workbench.log("loss", 1 / (1 + len(sys.argv[-1])) + float(sys.argv[-3]))
workbench.log("strange", float("nan"))
os.makedirs("outputs", exist_ok=True)
open("outputs/kept.txt", "w").write("kept")
print("line\\x1b[31m \\u2713")
"""


def test_page_has_each_command_once() -> None:
    names = [each.command for each in outputs()] + list(WITHOUT_JSON)
    assert sorted(names) == sorted(command.name for command in COMMANDS)
    for command in COMMANDS:
        assert ("-o" in options_of(command)) == (command.name not in WITHOUT_JSON), command.name


def test_version_names_the_version_of_the_schema(workbench: Installed) -> None:
    assert json.loads(workbench.run("--version", "-o", "json").out)["json_schema"] == JSON_SCHEMA


def test_undocumented_field_and_wrong_type_are_detected() -> None:
    good = {"line": "epoch 1"}
    check_value("LogLine|LogEnd", good)
    for wrong in ({"line": 1}, {**good, "more": 1}, {}):
        with pytest.raises(AssertionError, match="LogLine"):
            check_value("LogLine|LogEnd", wrong)


def test_each_type_is_used_and_described() -> None:
    text = " ".join([*(each.type for each in outputs()), *(field.type for each in types() for field in each.fields)])
    unused = [each.name for each in types() if each.name not in text]
    assert unused == ["Watch"]  # named in the notes on `gpu list` and `gpu top`
    assert all(field.meaning for each in types() for field in each.fields)
