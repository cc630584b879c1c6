"""A type from another package is attached like a built-in one, by the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.support import Result, Workbench
from tests.runs.support import write_files
from tests.targets.fake_package import installed as installed


class Project(Workbench):
    """A project, for whose commands the package is installed."""

    def attach(self, *words: str) -> Result:
        return self.run("computetarget", "attach", *words)

    def written(self, suffix: str) -> str:
        return (self.folder / "aml_config" / f"q.{suffix}").read_text()


@pytest.fixture
def project(project_root: Path, installed: Path) -> Project:
    return Project(project_root, {"PYTHONPATH": str(installed)})


def test_type_writes_its_keys_into_both_files(project: Project) -> None:
    done = project.attach("quantum", "-n", "q", "--qubits", "5", "--noise", "thermal", "--seed", "7")
    assert (done.code, done.err) == (0, "")
    assert project.written("compute") == "cooled: 'yes'\nnoise: thermal\nqubits: 5\nseed: '7'\ntype: quantum\n"
    assert "TrackedRun: false\n" in project.written("runconfig")


def test_machine_is_not_asked_without_a_check(project: Project) -> None:
    assert project.attach("quantum", "-n", "q", "--no-check").code == 0
    assert project.written("compute") == "qubits: 2\ntype: quantum\n"


def test_answer_of_the_user_has_precedence(project: Project) -> None:
    assert project.attach("quantum", "-n", "q", "--no-cooled").code == 0
    assert project.written("compute") == "cooled: 'no'\nqubits: 2\ntype: quantum\n"


def test_help_lists_the_type_and_its_options(project: Project) -> None:
    shown = project.attach("--help").out
    assert "attach quantum      --name NAME\n" in shown
    assert "[--qubits N] [--noise NOISE] [--seed SEED] [--cooled]\n" in shown
    assert "localdocker or quantum (100% simulated)" in " ".join(shown.split())
    own = " ".join(shown[shown.index("\nquantum:\n") :].split())
    assert "--qubits N the number of qubits (only for type quantum) --noise NOISE" in own
    assert "--no-cooled leave it warm" in own


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("quantum", "-n", "q", "--qubits", "x"), "invalid number of qubits: 'x'. Give a number."),
        (("quantum", "-n", "q", "--noise", "loud"), "'thermal'"),
        (("quantum", "-n", "q", "--address", "h"), "a quantum target uses the simulator of this machine"),
        (
            ("quantum", "-n", "q", "--no-gpu"),
            "--no-gpu applies only to remotedocker and localdocker targets, not to type 'quan",
        ),
        (
            ("remote", "-n", "q", "--address", "h", "--qubits", "5"),
            "--qubits applies only to quantum targets, not to type 'rem",
        ),
    ],
)
def test_invalid_options_are_one_line(project: Project, words: tuple[str, ...], said: str) -> None:
    done = project.attach(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert said in done.err


def test_option_of_the_command_keeps_its_meaning(project: Project, installed: Path) -> None:
    module = installed / "quantum.py"
    module.write_text(module.read_text().replace('"--seed"', '"--name"').replace('"--noise"', '"--python"'))
    assert project.attach("quantum", "-n", "q", "--qubits", "5", "--no-check").code == 0
    assert project.written("compute") == "qubits: 5\ntype: quantum\n"
    assert "the Python interpreter on the machine (sets pythonLocation" in " ".join(
        project.attach("--help").out.split()
    )


def test_broken_package_does_not_prevent_attaching(project: Project, installed: Path) -> None:
    write_files(
        installed,
        {
            "broken.py": "raise RuntimeError('half installed')\n",
            "broken-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n",
            "broken-1.0.dist-info/entry_points.txt": "[tui_workbench.targets]\nbroken = broken:Target\n",
        },
    )
    assert project.attach("quantum", "-n", "q").code == 0
    assert "localdocker, quantum." in project.attach("-n", "p").err
