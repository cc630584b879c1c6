"""Options of Slurm in configuration files: wrong values with their place and fix, and checks across files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.config.documents import document, in_project, project
from tui_workbench.config.loading import load_compute, load_run_configuration
from tui_workbench.config.schema import fields
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import slurm_options

if TYPE_CHECKING:
    from pathlib import Path

    from tui_workbench.config.checks.findings import Finding

HEAD = "type: slurm\n"
RUN = "Target: hpc\nFramework: Python\n"
EXAMPLE = """\
type: "slurm"
address: "login.cluster.example"    # missing: sbatch is on this machine
username: "research"
runRoot: "/scratch/research/workbench"   # shared by login and compute nodes
pythonLocation: "/scratch/research/env/bin/python"
slurm: {partition: gpu, account: lab, time: "4:00:00", nodes: 1, gpus: 1, cpus: 8, mem: 32G, constraint: a100,
  extra: ["--reservation=x"]}
setup: ["module load cuda/12.4"]
container: none                     # or pyxis, apptainer, oci
"""


def codes(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings]


def test_example_of_a_cluster_is_read(tmp_path: Path) -> None:
    root = project(tmp_path, hpc__compute=EXAMPLE)
    target = load_compute(str(root / "aml_config" / "hpc.compute"))
    assert in_project(root, "hpc.compute").problems() == []
    assert target.slurm == {
        "partition": "gpu",
        "account": "lab",
        "time": "4:00:00",
        "nodes": 1,
        "gpus": 1,
        "cpus": 8,
        "mem": "32G",
        "constraint": "a100",
        "extra": ("--reservation=x",),
    }
    assert (target.run_root, target.setup) == ("/scratch/research/workbench", ("module load cuda/12.4",))
    assert (target.container, target.poll_seconds, target.uses_ssh) == ("none", 15, True)


def test_target_without_address_needs_no_ssh(tmp_path: Path) -> None:
    root = project(tmp_path, hpc__compute=HEAD)
    target = load_compute(str(root / "aml_config" / "hpc.compute"))
    assert not target.uses_ssh
    assert target.kind.is_remote


@pytest.mark.parametrize("time", ["30", "90:00", "4:00:00", "1-0", "2-12:30", "2-12:30:00"])
@pytest.mark.parametrize("mem", ["500", "32G", "1T", "200m"])
def test_valid_limits_are_accepted(time: str, mem: str) -> None:
    text = f"{HEAD}slurm:\n  time: {time}\n  mem: {mem}\n"
    found = document(text, "a.compute")
    assert found.problems() == []
    assert (found.values["slurm.time"], found.values["slurm.mem"]) == (time, mem)


@pytest.mark.parametrize(
    ("written", "code", "place", "said", "fixed"),
    [
        ("slurm: gpu\n", "wrong-type", (2, 8), "expected a map", None),
        ("slurm:\n  partition: a b\n", "wrong-form", (3, 14), "text without spaces", None),
        ("slurm:\n  time: 4h\n", "wrong-form", (3, 9), "HH:MM:SS", 'slurm:\n  time: "4:00:00"\n'),
        ("slurm:\n  time: 2 d\n", "wrong-form", (3, 9), "D-HH", "slurm:\n  time: 2-00\n"),
        ("slurm:\n  time: 45min\n", "wrong-form", (3, 9), "minutes", 'slurm:\n  time: "45"\n'),
        ("slurm:\n  time: tomorrow\n", "wrong-form", (3, 9), "minutes", None),
        ("slurm:\n  time: 1:2:3:4\n", "wrong-form", (3, 9), "'1:2:3:4'", None),
        ("slurm:\n  time: 1-2-3\n", "wrong-form", (3, 9), "'1-2-3'", None),
        ("slurm:\n  mem: 32 GB\n", "wrong-form", (3, 8), "K, M, G or T", "slurm:\n  mem: 32G\n"),
        ("slurm:\n  mem: 32Gi\n", "wrong-form", (3, 8), "'32Gi'", "slurm:\n  mem: 32G\n"),
        ("slurm:\n  mem: all\n", "wrong-form", (3, 8), "'all'", None),
        ("slurm:\n  mem: -5G\n", "wrong-form", (3, 8), "'-5G'", None),
        ("slurm:\n  nodes: 0\n", "wrong-type", (3, 10), "1 or more", None),
        ("slurm:\n  gpus: a100\n", "wrong-type", (3, 9), "a whole number", None),
        ("slurm:\n  gpus: -1\n", "wrong-type", (3, 9), "0 or more", None),
        ("slurm:\n  cpus: 2.5\n", "wrong-type", (3, 9), "a whole number", None),
        ("slurm:\n  requeue: maybe\n", "wrong-type", (3, 12), "true or false", None),
        ("slurm:\n  extra: --x=1\n", "wrong-type", (3, 10), "a list", "slurm:\n  extra:\n    - --x=1\n"),
        ("slurm:\n  extra: [-x]\n", "wrong-form", (3, 11), "`--NAME` or `--NAME=VALUE`", None),
        ("slurm:\n  extra: [train.py]\n", "wrong-form", (3, 11), "'train.py'", None),
        ("slurm:\n  extra: ['']\n", "wrong-form", (3, 11), "''", None),
        ("slurm:\n  extra: ['--a b']\n", "wrong-form", (3, 11), "'--a b'", None),
        ("slurm:\n  extra: [--out=/x]\n", "reserved-option", (3, 11), "controls --output", "slurm:\n  extra: []\n"),
        ("slurm:\n  memory: 1G\n", "unknown-key", (3, 3), "unknown field `slurm.memory`", "slurm:\n  mem: 1G\n"),
        ("slurm:\n  tiem: 30\n", "unknown-key", (3, 3), "unknown field `slurm.tiem`", 'slurm:\n  time: 30\n'),
        ("partition: gpu\n", "unknown-key", (2, 1), "unknown field `partition`", None),
        ("gpus: 2\n", "no-effect", (2, 7), "no effect on a slurm", "slurm:\n  gpus: 2\n"),
        ("gpus: all\n", "no-effect", (2, 7), "no effect on a slurm", ""),
        ("runRoot: scratch\n", "wrong-form", (2, 10), "begins with / or ~/", None),
        ("runRoot: /a/%j\n", "wrong-form", (2, 10), "without % and backslashes", None),
        ("setup: module load cuda\n", "wrong-type", (2, 8), "a list", "setup:\n  - module load cuda\n"),
        ("container: docker\n", "wrong-choice", (2, 12), "'docker'", None),
        ("container: pyxis\n", "missing-field", (1, 1), "`container: pyxis` needs `baseDockerImage`", None),
        ("pollSeconds: 5\n", "wrong-type", (2, 14), "15 or more", None),
        ("baseDockerImage: My Image\n", "bad-image", (2, 18), "not an image name", None),
    ],
)  # fmt: skip
def test_wrong_value_has_place_and_fix(
    written: str, code: str, place: tuple[int, int], said: str, fixed: str | None
) -> None:
    broken = document(HEAD + written, "a.compute")
    finding = next(each for each in broken.problems() if each.code == code and said in each.message)
    assert (finding.line, finding.column) == place
    assert finding.remedy
    assert (finding.fix is None) == (fixed is None)
    if finding.fix is not None:
        broken.apply(finding.fix)
        assert broken.text == HEAD + (fixed or "")


RESERVED = """--job-name=x --output=x --error=x --export=ALL --parsable --wrap=x --array=1 --requeue --no-requeue
--open-mode=truncate --chdir=/ --signal=USR1 --job-n=x --wai --clusters=b --test-only"""


@pytest.mark.parametrize("option", RESERVED.split())
def test_options_of_the_workbench_are_refused(tmp_path: Path, option: str) -> None:
    root = project(tmp_path, hpc__compute=HEAD, a__runconfig=f"{RUN}Slurm: {{extra: [--exclude=n1, {option}]}}\n")
    with pytest.raises(ConfigurationError, match="the workbench controls") as refused:
        load_run_configuration(str(root / "aml_config" / "a.runconfig"))
    assert (refused.value.line, refused.value.column) == (3, 31)


@pytest.mark.parametrize("image", ["/scratch/torch.sqsh", "./torch.sif", "docker://python:3.12", "python:3.12"])
def test_images_of_slurm_may_be_paths(image: str) -> None:
    assert document(f"{HEAD}container: apptainer\nbaseDockerImage: {image}\n", "a.compute").problems() == []


def test_run_configuration_overrides_options_of_the_target(tmp_path: Path) -> None:
    override = "Slurm:\n  time: 10\n  constraint: ''\n  gpus: 0\n"
    root = project(tmp_path, hpc__compute=EXAMPLE, a__runconfig=RUN + override) / "aml_config"
    options = slurm_options(load_compute(str(root / "hpc.compute")), load_run_configuration(str(root / "a.runconfig")))
    assert (options["time"], options["gpus"], options["partition"]) == ("10", 0, "gpu")
    assert "constraint" not in options


def test_options_are_rows_only_for_slurm_targets(tmp_path: Path) -> None:
    root = project(
        tmp_path, hpc__compute=HEAD, here__compute="type: local\n", a__runconfig=RUN, b__runconfig="Target: here\n"
    )
    keys = [row.key for row in in_project(root, "a.runconfig").fields()]
    assert [key for key in keys if key.startswith("Slurm.")] == [
        field.key for field in fields.RUNCONFIG.fields if field.key.startswith("Slurm.")
    ]
    assert not any(row.key.startswith("Slurm.") for row in in_project(root, "b.runconfig").fields())


def test_options_for_another_target_have_no_effect(tmp_path: Path) -> None:
    text = "Target: here\nFramework: Python\nSlurm:\n  gpus: 2\n"
    root = project(tmp_path, here__compute="type: local\n", b__runconfig=text)
    editing = in_project(root, "b.runconfig")
    finding = next(each for each in editing.problems() if each.code == "no-effect")
    assert (finding.line, finding.message) == (4, "`Slurm.gpus` has no effect on a local target")
    assert finding.fix is not None
    editing.apply(finding.fix)
    assert editing.text == "Target: here\nFramework: Python\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", ["no-gpu-requested", "processes-without-gpu"]),
        ("Slurm: {gpus: 2}\n", []),
        ("Slurm: {extra: ['--gres=gpu:1']}\n", []),
    ],
)
def test_required_gpu_must_be_requested(tmp_path: Path, options: str, expected: list[str]) -> None:
    text = f"{RUN}RequireGpu: true\nProcessesPerNode: gpus\n{options}"
    editing = in_project(project(tmp_path, hpc__compute=HEAD, a__runconfig=text), "a.runconfig")
    assert sorted(codes(editing.problems())) == expected
    if expected:
        fix = next(each.fix for each in editing.problems() if each.code == "no-gpu-requested")
        assert fix is not None
        editing.apply(fix)
        assert codes(editing.problems()) == []


@pytest.mark.parametrize(
    ("compute", "runconfig", "expected"),
    [
        ("slurm: {nodes: 4}", "Nodes: 2", 2),  # the run configuration has precedence
        ("slurm: {nodes: 4}", "", 4),
        ("", "Nodes: 2\nSlurm: {nodes: 2}", 2),
        ("", "Slurm: {nodes: 3}", 3),
    ],
)
def test_number_of_nodes(tmp_path: Path, compute: str, runconfig: str, expected: int) -> None:
    root = project(tmp_path, hpc__compute=f"{HEAD}{compute}\n", a__runconfig=f"{RUN}{runconfig}\n")
    assert codes(in_project(root, "a.runconfig").problems()) == []
    folder = root / "aml_config"
    options = slurm_options(
        load_compute(str(folder / "hpc.compute")), load_run_configuration(str(folder / "a.runconfig"))
    )
    assert options["nodes"] == expected


def test_different_numbers_of_nodes_are_reported(tmp_path: Path) -> None:
    text = f"{RUN}Nodes: 2\nSlurm:\n  nodes: 3\n"
    editing = in_project(project(tmp_path, hpc__compute=HEAD, a__runconfig=text), "a.runconfig")
    (finding,) = editing.problems()
    assert (finding.code, finding.line) == ("nodes-conflict", 5)
    assert finding.fix is not None
    editing.apply(finding.fix)
    assert editing.text == f"{RUN}Nodes: 2\n"


@pytest.mark.parametrize(("nodes", "expected"), [(2, "one-node"), (1, "no-effect")])
def test_nodes_on_one_machine_are_reported(tmp_path: Path, nodes: int, expected: str) -> None:
    here = "type: local\npythonLocation: python3\n"
    text = f"Target: here\nFramework: Python\nNodes: {nodes}\n"
    editing = in_project(project(tmp_path, here__compute=here, a__runconfig=text), "a.runconfig")
    (finding,) = editing.problems()
    assert (finding.code, finding.line) == (expected, 3)
    assert finding.fix is not None
    editing.apply(finding.fix)
    assert editing.text == "Target: here\nFramework: Python\n"


def test_early_signal_needs_no_limit_of_the_workbench(tmp_path: Path) -> None:
    text = f"{RUN}Slurm: {{time: '0:06:00'}}\nSignalBeforeEndMinutes: 5\n"
    assert in_project(project(tmp_path, hpc__compute=HEAD, a__runconfig=text), "a.runconfig").problems() == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("ProcessesPerNode: gpus\nSlurm: {gpus: 1}", ["nodes-without-gpu"]),
        ("ProcessesPerNode: gpus\nSlurm: {gpus: 2}", []),
        ("ProcessesPerNode: 4\nSlurm: {gpus: 4}", ["more-processes-than-gpus"]),
        ("ProcessesPerNode: 2\nSlurm: {gpus: 4}", []),
    ],
)
def test_gpus_of_a_job_are_shared_by_its_nodes(tmp_path: Path, options: str, expected: list[str]) -> None:
    root = project(tmp_path, hpc__compute=HEAD, a__runconfig=f"{RUN}Nodes: 2\n{options}\n")
    editing = in_project(root, "a.runconfig")
    problems = editing.problems()
    assert codes(problems) == expected
    for each in problems:
        assert each.fix is not None
        editing.apply(each.fix)
    assert codes(editing.problems()) == []


def test_removing_the_last_option_removes_the_section() -> None:
    editing = document(f"{HEAD}slurm:\n  gpus: 2\npollSeconds: 30\n", "a.compute")
    editing.unset("slurm.gpus")
    assert editing.text == f"{HEAD}pollSeconds: 30\n"
    editing.set("slurm.gpus", 2)
    assert editing.text == f"{HEAD}slurm:\n  gpus: 2\npollSeconds: 30\n"
