"""The files that agents may run as scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.runs.agents.test_agents import REQUEST, write_limits
from tests.runs.support import write_configuration, write_files
from tui_workbench.core.errors import UsageError
from tui_workbench.runs.agents.submitting import plan_for_agent, submit_for_agent
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project

SECRET = "KEY=abc123secret\n"


@pytest.fixture(autouse=True)
def files(project: Project) -> None:
    write_limits(targets=["local"])
    root = Path(project.root)
    names = (".env", ".env.py", "secrets.yml", "id_rsa", "notes", "a.py.key", "run.sh", "A.PY", "aml_config/x.json")
    write_files(root, dict.fromkeys(names, SECRET))
    (root.parent / "outside.py").write_text(SECRET)
    for name, target in {
        "link.py": ".env",
        "chain.py": "link.py",
        "out.py": "../outside.py",
        "config.py": "secrets.yml",
        "linked.txt": "hello.py",
    }.items():
        (root / name).symlink_to(target)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (".env", "is a file with secrets"),
        ("./aml_config/../.env", "is a file with secrets"),
        (".env.py", "is a file with secrets"),
        ("id_rsa", "is a file with secrets"),
        ("a.py.key", "is a file with secrets"),
        ("link.py", "is a file with secrets"),
        ("chain.py", "is a file with secrets"),
        ("secrets.yml", "is not a Python file or a notebook"),
        ("config.py", "is not a Python file or a notebook"),
        ("notes", "is not a Python file or a notebook"),
        ("run.sh", "is not a Python file or a notebook"),
        ("A.PY", "is not a Python file or a notebook"),
        ("linked.txt", "is not a Python file or a notebook"),
        ("aml_config/x.json", "is not a Python file or a notebook"),
        ("aml_config/local.runconfig", "is not a Python file or a notebook"),
        ("out.py", "is a link to a file outside the project"),
    ],
)
def test_other_files_are_refused(project: Project, script: str, reason: str) -> None:
    for submit in (plan_for_agent, submit_for_agent):
        with pytest.raises(UsageError, match=reason):
            submit(project, REQUEST._replace(script=script))
    assert Runs(project).list() == []


@pytest.mark.parametrize("script", ["hello.py", "copy.py", "package/train.py"])
def test_python_files_and_links_to_them_are_accepted(project: Project, script: str) -> None:
    write_files(Path(project.root), {"package/train.py": "print(1)\n"})
    Path(project.root, "copy.py").symlink_to("package/train.py")
    prepared, reasons = plan_for_agent(project, REQUEST._replace(script=script))
    assert (prepared.spec.script, reasons) == (script, [])


def test_secret_file_in_the_argument_vector_is_refused(project: Project) -> None:
    write_configuration(Path(project.root), ArgumentVector=["secrets.yml"])
    with pytest.raises(UsageError, match="is not a Python file or a notebook"):
        submit_for_agent(project, REQUEST._replace(script=""))
