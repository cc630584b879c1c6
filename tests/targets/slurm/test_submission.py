"""Submission on this machine, with stand-ins for the commands of Slurm."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.runs.support import record_of
from tui_workbench.core.errors import StorageError, TargetUnreachable, WorkbenchError
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.hosts.host_run import Placing
from tui_workbench.targets.slurm import submission
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.submission import (
    Submission,
    SubmissionRefused,
    Submitted,
    job_of,
    place_and_submit,
    submit,
)

ACCEPT = 'cat >>"$BOX/batch"; echo "$@" >>"$BOX/sbatch"; env >"$BOX/environment"; echo 12'
NO_ANSWER = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"


class Login:
    """A login node whose commands are shell scripts; $BOX is its folder for notes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / "root" / "runs" / "exp_1"
        self.run.mkdir(parents=True)
        (folder / "bin").mkdir()
        self.host = LoginHost(LocalHost(), str(folder / "root"))
        self.command("sbatch", ACCEPT)
        self.command("squeue", "")
        self.command("sacct", "exit 1")
        self.command("scancel", 'echo "$@" >>"$BOX/scancel"')

    def command(self, name: str, script: str) -> None:
        """Replace a command."""
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\nBOX={self.folder}\n{script}\n")
        path.chmod(0o755)

    @property
    def job(self) -> Submission:
        return Submission(str(self.run), "wb-exp_1", b"step", b"batch", ("--parsable", "-x"), "`clean`")

    def submit(self) -> Submitted:
        return submit(self.host, self.job)

    def place_and_submit(self, script: str) -> Submitted | None:
        """Submit with another script in place of the one that makes the run's working copy."""
        return place_and_submit(self.host, Placing(script, ("", str(self.run), "", "", "", "6"), b"record"), self.job)

    @property
    def submissions(self) -> int:
        """The number of calls to sbatch."""
        path = self.folder / "sbatch"
        return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Login:
    made = Login(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return made


def test_sbatch_gets_the_batch_script_and_a_file_the_step(login: Login) -> None:
    assert login.submit().job_id == "12"
    assert (login.folder / "batch").read_text() == "batch"
    assert (login.folder / "sbatch").read_text() == "--parsable -x\n"
    assert (login.run / "step").read_text() == "step"
    assert (login.run / "step").stat().st_mode & 0o077 == 0
    assert job_of(login.host, str(login.run)) == "12"


def test_one_request_makes_the_copy_and_submits(login: Login) -> None:
    assert login.place_and_submit('cat >"$2/run.json"; echo placed') == Submitted("12")
    assert (login.run / "run.json").read_text() == "record"
    assert (login.folder / "batch").read_text() == "batch"


@pytest.mark.parametrize("script", ["exit 1", "cat >/dev/null", "cat >/dev/null; echo absent; echo placed"])
def test_missing_copy_submits_nothing(login: Login, script: str) -> None:
    assert login.place_and_submit(script) is None
    assert login.submissions == 0


def test_several_requests_submit_once(login: Login) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = [future.result() for future in [pool.submit(login.submit) for _ in range(4)]]
    assert {each.job_id for each in found} == {"12"}
    assert login.submissions == 1


def test_job_of_the_caller_does_not_change_the_new_job(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    names = "SLURM_JOB_ID SLURM_CONF SBATCH_PARTITION PMI_RANK PMIX_RANK SQUEUE_STATES SINFO_PARTITION"
    for name in names.split():
        monkeypatch.setenv(name, "of the caller")
    login.submit()
    lines = (login.folder / "environment").read_text().splitlines()
    assert [line for line in lines if line.endswith("=of the caller")] == ["SLURM_CONF=of the caller"]


def test_job_has_the_umask_of_the_login(login: Login) -> None:
    login.command("sbatch", f'umask >"$BOX/umask"; {ACCEPT}')
    mask = os.umask(0o027)
    try:
        login.submit()
    finally:
        os.umask(mask)
    assert (login.folder / "umask").read_text() == "0027\n"


@pytest.mark.parametrize("said", ["Socket timed out on send/recv operation", "Unexpected missing socket error"])
def test_uncertain_submission_is_first_looked_up_by_name(login: Login, said: str) -> None:
    login.command("sbatch", f"echo 'sbatch: error: {said}' >&2; exit 1")
    with pytest.raises(TargetUnreachable, match=said):
        login.submit()
    login.command("sbatch", ACCEPT)
    login.command("squeue", "echo '15|PENDING|None'")
    assert login.submit().job_id == "15"
    assert login.submissions == 0


@pytest.mark.parametrize(
    "said",
    [
        "100000 SUs left in project ml-lab\n12",
        "100000\n12",
        "7 GPU hours left\n12;hpc",
        "12;eng-hpc.1\ngood luck",
        "\n12\r\n\nbye",
        "12 ",
        "2026-11-28 site policy 12\n99 bottles\n12",
    ],
)
def test_id_is_the_last_line_that_is_one(login: Login, said: str) -> None:
    (login.folder / "said").write_text(f"{said}\n")
    login.command("sbatch", 'cat "$BOX/said"')
    assert login.submit().job_id == "12"


BANNER = 'echo x >>"$BOX/sbatch"; echo "site policy: job renamed, 1 SU reserved"'


def test_renamed_job_without_an_id_is_found_by_its_folder(login: Login) -> None:
    login.command("sbatch", BANNER)
    login.command("squeue", f"case $* in *%Z*) echo '8|/other'; echo '33|{login.run}'; echo '34|{login.run}x' ;; esac")
    assert login.submit().job_id == "33"


def test_accepted_job_without_an_id_is_never_submitted_again(login: Login) -> None:
    login.command("sbatch", BANNER)
    for _ in range(3):
        with pytest.raises(TargetUnreachable, match="accepted, but sbatch printed no ID"):
            login.submit()
    assert login.submissions == 1
    (login.run / "pid").write_text("18\n")
    assert login.submit().job_id == "18"


def test_silent_slurm_gets_no_submission(login: Login) -> None:
    (login.run / "attempted").touch()
    login.command("squeue", NO_ANSWER)
    with pytest.raises(TargetUnreachable, match="Unable to contact slurm controller"):
        login.submit()
    assert login.submissions == 0
    login.command("squeue", "")
    assert login.submit().job_id == "12"


def test_job_that_squeue_forgot_is_found_by_sacct(login: Login) -> None:
    (login.run / "attempted").touch()
    login.command("sacct", "echo '17|COMPLETED'")
    assert login.submit().job_id == "17"


def test_started_job_is_found_by_its_file(login: Login) -> None:
    (login.run / "attempted").touch()
    (login.run / "pid").write_text("18\n")
    assert login.submit().job_id == "18"


def test_first_of_two_jobs_is_kept(login: Login) -> None:
    (login.run / "attempted").touch()
    login.command("squeue", "echo '21|PENDING|None'; echo '20|PENDING|None'")
    assert login.submit().job_id == "20"
    assert (login.folder / "scancel").read_text() == "21\n"


def test_refused_job_can_be_submitted_again(login: Login) -> None:
    login.command("sbatch", "echo 'sbatch: error: Batch job submission failed: Invalid qos specification' >&2; exit 1")
    login.command("squeue", "echo '22|FAILED|BadConstraints'")
    with pytest.raises(SubmissionRefused, match="Invalid qos specification") as caught:
        login.submit()
    assert "slurm.qos" in caught.value.remedy
    assert job_of(login.host, str(login.run)) == ""
    login.command("sbatch", ACCEPT)
    assert login.submit().job_id == "12"


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("invalid partition specified: nope", "slurm.partition"),
        ("Invalid account or account/partition combination specified", "slurm.account"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "slurm.time"),
        ("Invalid feature specification", "slurm.constraint"),
        ("Requested node configuration is not available", "sinfo"),
        ("unrecognized option '--frobnicate'", "slurm.extra"),
    ],
)
def test_error_of_sbatch_has_a_remedy(login: Login, said: str, key: str) -> None:
    login.command("sbatch", f'echo "sbatch: error: {said}" >&2; exit 1')
    with pytest.raises(SubmissionRefused) as caught:
        login.submit()
    assert said in caught.value.message
    assert key in caught.value.remedy


def test_messages_of_a_site_are_kept(login: Login) -> None:
    login.command("sbatch", "echo 'sbatch: you have 7 GPU hours left' >&2; echo '12;cluster'")
    assert login.submit() == Submitted("12", ("you have 7 GPU hours left",))


def test_missing_sbatch_is_reported(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    (login.folder / "bin" / "sbatch").unlink()
    tools = login.folder / "tools"
    tools.mkdir()
    for name in ("sh", "env", "sed", "head", "cat", "wc", "flock", "rm", "mv", "id", "grep"):
        (tools / name).symlink_to(Path("/usr/bin", name))
    monkeypatch.setenv("PATH", f"{login.folder / 'bin'}{os.pathsep}{tools}")
    with pytest.raises(SubmissionRefused, match="has no sbatch"):
        login.submit()


def test_full_disk_is_reported_and_submits_nothing(login: Login) -> None:
    login.command("cat", "echo 'cat: write error: Disk quota exceeded' >&2; exit 1")
    with pytest.raises(StorageError, match="quota"):
        login.submit()
    assert login.submissions == 0


@pytest.mark.parametrize(
    ("command", "script", "said"),
    [
        ("cat", "head -c 1", "the request is incomplete"),
        ("flock", "exit 1", "another request is submitting this run"),
    ],
)
def test_request_that_stops_before_slurm_can_be_repeated(login: Login, command: str, script: str, said: str) -> None:
    login.command(command, script)
    with pytest.raises(TargetUnreachable, match=f"^cannot submit the job on this machine: {said}"):
        login.submit()
    assert login.submissions == 0


def reset(login: Login, tmp_path: Path, attempt: int) -> None:
    spec = record_of(tmp_path / "here" / "exp_1").spec
    submission.reset(login.host, spec._replace(attempt=attempt), anew=False)


def test_next_attempt_is_another_job(login: Login, tmp_path: Path) -> None:
    login.submit()
    (login.run / "output.log").write_text("one")
    for _ in range(2):
        reset(login, tmp_path, 2)
        assert job_of(login.host, str(login.run)) == ""
        assert sorted(os.listdir(login.run)) == ["attempt", "output.log", "submit.lock"]
    with pytest.raises(SubmissionRefused, match="attempt 2 has begun"):
        login.submit()  # a late request of the first attempt
    submit(login.host, login.job._replace(attempt=2))
    reset(login, tmp_path, 2)  # a late request, after the submission
    assert job_of(login.host, str(login.run)) == "12"
    assert login.submissions == 2


def test_job_without_an_exit_code_is_canceled_before_the_next_attempt(login: Login, tmp_path: Path) -> None:
    login.submit()
    reset(login, tmp_path, 2)
    reset(login, tmp_path, 4)
    (login.run / "exit").write_text("3   \n")
    reset(login, tmp_path, 5)
    canceled = (login.folder / "scancel").read_text().splitlines()
    assert [line.partition("-n ")[2] for line in canceled] == ["wb-exp_1", "wb-exp_1.2"]


def test_missing_directory_is_an_error(login: Login) -> None:
    login.run.rmdir()
    with pytest.raises(WorkbenchError):
        login.submit()
