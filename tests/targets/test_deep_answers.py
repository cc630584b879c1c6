"""JSON of machines and of files in run directories that is nested deeper than any parser can read."""

from __future__ import annotations

from pathlib import Path

from tui_workbench.core.model import ClusterJob
from tui_workbench.runs.gpu.usage import Usage
from tui_workbench.runs.store.cluster_job import JOB, read_job
from tui_workbench.targets.gpu.frameworks import MARK, parse_report
from tui_workbench.targets.gpu.sample import decode
from tui_workbench.targets.hosts.host_layout import RunFolder
from tui_workbench.targets.slurm.ends import INFO, read_info

DEEP = b"[" * 100_000


def test_deep_record_of_a_run_on_a_machine_has_no_project() -> None:
    assert RunFolder("/there/run", 0, DEEP).project == ""
    assert RunFolder("/there/run", 0, b'{"project": "p"}').project == "p"


def test_deep_facts_of_a_job_are_no_facts(tmp_path: Path) -> None:
    for name in (INFO, JOB):
        (tmp_path / name).write_bytes(b'{"job": ' + DEEP)
    assert read_info(str(tmp_path)) == {}
    assert read_job(str(tmp_path)) == ClusterJob()


def test_deep_report_of_frameworks_is_no_report() -> None:
    assert parse_report(MARK + DEEP) is None


def test_deep_samples_are_skipped() -> None:
    assert decode(b'{"d": ' + DEEP) is None
    usage = Usage()
    for line in (b'{"facts":' + DEEP, b'{"attempt":' + DEEP, b'{"attempt":' + b"9" * 5000 + b"}"):
        usage.add_line(line)
    assert usage.samples == 0
