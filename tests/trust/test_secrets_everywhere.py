"""The secrets of a run are in no file of the project, of the user's folders or of the machine."""

from __future__ import annotations

import json
from pathlib import Path

from tests.runs.snapshots.test_secret_values import files_with
from tests.targets.conftest import connections as connections
from tests.targets.conftest import gpubox as gpubox
from tests.targets.conftest import key as key
from tests.targets.conftest import ssh_folder as ssh_folder
from tests.targets.remote_project import Remote
from tests.targets.remote_project import box as box
from tui_workbench.config.secret_values import FOLDER

VARIABLES = {
    "DB_PASS": "s3cret-01", "HF_AUTH": "s3cret-02", "COOKIE": "sid=s3cret-03; a=b", "LICENSE": "s3cret-04",
    "SLACK_WEBHOOK": "https://hooks.slack.com/services/T0/B0/s3cret05", "LICENSE_KEY": "s3cret-06",
    "HF_TOKEN": "s3cret-07", "OPENAI_API_KEY": "s3cret-08", "DATABASE_URL": "postgres://me:s3cret-09@db/x",
    "AWS_SECRET_ACCESS_KEY": "s3cret-10", "GITHUB_PAT": "s3cret-11", "MYSQL_PWD": "s3cret-12",
    "SENTRY_DSN": "s3cret-13", "AZURE_SAS": "s3cret-14",
    "PRIVATE_KEY": "-----BEGIN RSA PRIVATE KEY-----\ns3cret-15\n-----END RSA PRIVATE KEY-----",
    "CONNECTION": "Server=db;Pwd=s3cret-16;", "SMTP_PASSWORD": "s3cret-17 ä'\"$x", "JWT": "s3cret-18",
}  # fmt: skip

ARGUMENTS = [
    "--pass", "s3cret-21", "--auth", "s3cret-22", "-u", "me", "-p", "s3cret-23", '{"token": "s3cret-24", "lr": 1}',
    "--token=s3cret-25", "--api-key", "s3cret-26", "-H", "Authorization: Bearer s3cret-27", "API_TOKEN=s3cret-28",
    "https://x.webhook.office.com/s3cret-29", "--webhook", "s3cret-30", "x,s3cret-01,y", "--cookie", "s3cret-31",
]  # fmt: skip

SCRIPT = """\
import os, sys
names = {names!r}
print([len(os.environ[name]) for name in names], len(sys.argv), os.environ["DB_PASS"][-2:], sys.argv[2][-2:])
"""


def test_no_file_has_a_secret_after_a_run(box: Remote, home: Path) -> None:
    box.configure(EnvironmentVariables=VARIABLES)
    box.write(SCRIPT.format(names=list(VARIABLES)))
    result = box.submit("train.py", *ARGUMENTS, configuration="box")
    assert result.code == 0, result
    (run_id,) = [run["run_id"] for run in box.history()]
    lengths = [len(value) for value in VARIABLES.values()]
    assert box.log(run_id) == f"{lengths} {len(ARGUMENTS) + 1} 01 21\n"
    found = files_with("s3cret", box.folder, home, box.machine.home())
    own = {str(box.folder / "aml_config" / "box.runconfig")}
    stored = home / ".local" / "state" / "workbench-tui" / FOLDER
    assert {name for name in found if Path(name).parent != stored} == own
    for path in stored.iterdir():
        assert path.stat().st_mode & 0o077 == 0
    assert json.loads((box.folder / "aml_config" / "box.runconfig").read_text())["EnvironmentVariables"] == VARIABLES
