"""The documented commands of Azure ML Workbench (workbench reference, section 3)."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.faults.support import Result, Workbench
from tests.runs.support import write_configuration, write_files
from tui_workbench.cli import find_command, parse
from tui_workbench.cli.az import LINES, REMEDIES, translated
from tui_workbench.core.errors import UsageError

PAGES = {
    "experiment submit -c local myscript.py": "experiment submit -c local myscript.py",
    "experiment submit -c local ./iris_sklearn.py": "experiment submit -c local ./iris_sklearn.py",
    "experiment submit -c docker-python iris.py 0.1 -o x --verbose": (
        "experiment submit -c docker-python iris.py 0.1 -o x --verbose"
    ),
    "experiment submit --run-configuration=docker --target myvm --wait iris.py": (
        "experiment submit --run-configuration=docker --target myvm --wait iris.py"
    ),
    "experiment submit -o json --debug -c myvm --project /p myscript.py": (
        "experiment submit -c myvm --project /p myscript.py"
    ),
    "experiment submit -c myvm": "experiment submit -c myvm",
    "experiment prepare -c docker": "experiment prepare -c docker",
    "experiment prepare --run-configuration docker --target myvm": (
        "experiment prepare --run-configuration docker --target myvm"
    ),
    "experiment status -r demo_1 -t local": "experiment status -r demo_1",
    "experiment cancel -r demo_1 -t local": "experiment cancel -r demo_1",
    "experiment cancel --run=demo_1 --target=local": "experiment cancel --run=demo_1",
    "experiment clean": "experiment clean --yes",
    "history list": "history list",
    "history list -o table": "history list -o table",
    "history list --path /p -o jsonc": "history list --project /p -o json",
    "history list --query \"[?status=='Completed']\" -o tsv": "history list --query \"[?status=='Completed']\" -o tsv",
    'history list --query "@[?Accuracy != null] | max_by(@, &Accuracy).Accuracy"': (
        'history list --query "@[?Accuracy != null] | max_by(@, &Accuracy).Accuracy"'
    ),
    "history last": "history last",
    "history info --run demo_1 --artifact driver_log": "history info --run demo_1 --artifact driver_log",
    "history info -r demo_1 -a outputs/x.png": "history info -r demo_1 -a outputs/x.png",
    "history compare demo_1 demo_2": "history compare demo_1 demo_2",
    "history compare --run 5 --run 6": "history compare --run 5 --run 6",
    "history download -r demo_1 --artifact x -d d": "history download -r demo_1 --artifact x -d d",
    "history promote --run demo_1 --artifact-path outputs/model.pkl --name model.pkl": (
        "history promote --run demo_1 --artifact-path outputs/model.pkl --name model.pkl"
    ),
    "history promote -r demo_1 -ap outputs/model.pkl -n model.pkl": (
        "history promote -r demo_1 -ap outputs/model.pkl -n model.pkl"
    ),
    "asset download --link-file assets/model.pkl.link -d d": "asset download --link-file assets/model.pkl.link -d d",
    "computetarget attach remotedocker --name myvm --address 10.0.0.1 --username u --password p": (
        "computetarget attach remotedocker --name myvm --address 10.0.0.1 --username u --password p"
    ),
    "computetarget attach remotedocker -n myvm -a host -u u -w p": (
        "computetarget attach remotedocker -n myvm -a host -u u -w p"
    ),
    "computetarget attach remote -n vm -a host -u u -k": "computetarget attach remote -n vm -a host -u u -k",
    "computetarget attach --name myvm --address host --username u --password p --type remotedocker": (
        "computetarget attach --name myvm --address host --username u --password p --type remotedocker"
    ),
    "computetarget list": "computetarget list --query [].name",
    "computetarget list --query=[0].type": "computetarget list --query=[0].type",
    "computetarget detach -n myvm": "computetarget detach -n myvm",
    "runconfiguration create -n c -t myvm": "runconfiguration create -n c -t myvm",
    "runconfiguration delete -n c": "runconfiguration delete -n c",
    "runconfiguration list": "runconfiguration list --query [].name",
    "project create -n iris -w ws -a acc -g rg --path /p --template blank --force": (
        "project create -n iris --path /p --template blank"
    ),
    "project create --name iris --workspace=ws --account acc --resource-group rg -r https://x.visualstudio.com/r": (
        "project create --name iris"
    ),
    "project create --name iris --workspace ws --template-url https://example.org/t.git": (
        "project create --name iris --template-url https://example.org/t.git"
    ),
    "project restore --run-id demo_1": "project restore --run-id demo_1",
    "project sample list": "project sample list",
}


@pytest.mark.parametrize(("line", "ours"), PAGES.items(), ids=list(PAGES))
def test_az_command_is_translated(line: str, ours: str) -> None:
    words = translated(shlex.split(line))
    assert words == shlex.split(ours)
    command, rest = find_command(words)
    assert command is not None
    parse(command, rest)


def test_every_translation_is_tested() -> None:
    tested = {words for words in LINES for line in PAGES if tuple(line.split()[: len(words)]) == words}
    assert tested == set(LINES)


@pytest.mark.parametrize("noun", sorted(REMEDIES))
def test_unsupported_command_names_the_replacement(noun: str) -> None:
    with pytest.raises(UsageError, match=r"is not supported\. [A-Z].*\."):
        translated([*noun.split(), "list", "-g", "x"])


def test_unknown_command_lists_the_commands() -> None:
    with pytest.raises(UsageError, match=r"unknown command 'az ml experiment lst'.*experiment submit"):
        translated(["experiment", "lst"])


@pytest.fixture
def workbench(project_root: Path) -> Workbench:
    write_files(project_root, {"report.py": "import sys\nprint(sys.argv[1:])\n"})
    write_configuration(project_root, "docker", suffix="compute", type="localdocker", baseDockerImage="x")
    return Workbench(project_root)


def in_shell(workbench: Workbench, lines: str) -> Result:
    return workbench.run("shell", "--", "sh", "-c", lines)


@pytest.mark.processes
def test_az_commands_work_in_the_shell(workbench: Workbench) -> None:
    result = in_shell(
        workbench, "az ml experiment submit -c local report.py 0.1 -o x && az ml history list --query [].status -o tsv"
    )
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[1:] == ["['0.1', '-o', 'x']", "Completed"]
    assert in_shell(workbench, "az ml computetarget list -o tsv").out == "docker\nlocal\n"
    assert in_shell(workbench, "az ml").out.splitlines()[0] == "  az ml experiment submit"


@pytest.mark.processes
def test_az_creates_and_deletes_run_configurations(workbench: Workbench) -> None:
    assert in_shell(workbench, "az ml runconfiguration create -n c -t docker -o tsv").code == 0
    assert in_shell(workbench, "az ml runconfiguration list -o tsv").out == "c\nlocal\n"
    in_shell(workbench, "az ml runconfiguration create -n c -t docker").error(3, "the file already exists")
    in_shell(workbench, "az ml runconfiguration create -n d -t nowhere").error(3, "unknown compute target 'nowhere'")
    assert in_shell(workbench, "az ml runconfiguration delete -n c -o tsv").code == 0
    assert in_shell(workbench, "az ml runconfiguration list -o tsv").out == "local\n"


def test_az_errors_have_their_exit_code(workbench: Workbench) -> None:
    in_shell(workbench, "az ml notebook start").error(2, "`az ml notebook` is not supported", "workbench-tui notebook")
    in_shell(workbench, "az ml experiment submit -c none report.py").error(3, "unknown run configuration 'none'")


def test_other_commands_go_to_the_azure_cli(workbench: Workbench, tmp_path: Path) -> None:
    folder = tmp_path / "azure"
    write_files(folder, {"az": '#!/bin/sh\nprintf "<%s>" real "$@"\nexit 7\n'})
    (folder / "az").chmod(0o755)
    workbench.environment["PATH"] = f"{Path(sys.executable).parent}:{folder}:{os.environ['PATH']}"
    result = in_shell(workbench, "az login --tenant 'a b'")
    assert (result.code, result.out) == (7, "<real><login><--tenant><a b>")
    nested = in_shell(workbench, "workbench-tui shell -- az --version")
    assert (nested.code, nested.out) == (7, "<real><--version>")


def test_missing_azure_cli_is_reported(workbench: Workbench) -> None:
    workbench.environment["PATH"] = "/usr/bin:/bin"
    result = in_shell(workbench, "az login")
    assert (result.code, result.out) == (127, "")
    assert "not installed" in result.err
