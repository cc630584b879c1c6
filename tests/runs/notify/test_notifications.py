"""Notifications about runs, sent to real servers for e-mail and HTTP."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.faults.support import until
from tests.json_output import check_output
from tests.runs.notify.conftest import RECIPIENT, TOPIC, Mailbox, Topic
from tests.runs.support import make_run, record_of
from tui_workbench.core import locks
from tui_workbench.core.directories import channels_path
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.gpu.verdict import Verdict, to_json
from tui_workbench.runs.lifecycle.controller import Helpers
from tui_workbench.runs.lifecycle.retrying import add_attempt
from tui_workbench.runs.lifecycle.starting import end_waiting
from tui_workbench.runs.metrics import recording
from tui_workbench.runs.notify import pending, sender, sending
from tui_workbench.runs.notify.announcing import END, METRIC, STALLED, announce
from tui_workbench.runs.notify.channels import Channel, load_channels, parse_condition
from tui_workbench.runs.store.rundir import GPU_VERDICT, Ending, RunDirectory


def add(shell: Installed, name: str, url: str, *options: str) -> None:
    words = ("notify", "add", name, "--url-stdin", *options, "-o", "json")
    process = shell.start(*words, stdin=subprocess.PIPE)
    out, err = process.communicate(url.encode())
    assert process.returncode == 0, err
    check_output(words, out.decode())


def results(run: RunDirectory) -> dict[str, bool]:
    """Return the result of each notification about a run, by its file."""
    files = Path(run.path, "notifications").iterdir()
    return {file.name.removesuffix(".json"): json.loads(file.read_text())["sent"] for file in files}


def test_channels_report_ended_runs(
    shell: Installed, project: Project, mailbox: Mailbox, topic: Topic, home: Path
) -> None:
    add(shell, "mail", mailbox.url, "--on", "end", "--metric", "loss < 0.1", "--metric", "loss > 9")
    add(shell, "phone", topic.url, "--on", "failed")
    assert shell.submit("train.py", "0").code == 0
    until(lambda: len(mailbox.mails) == 2, "the mails about the first run")
    assert shell.submit("train.py", "3").code == 3
    until(lambda: len(mailbox.mails) == 4 and topic.messages, "the notifications about the second run")
    subjects = [str(mail["Subject"]) for mail in mailbox.mails]
    assert subjects[:2] == ["✓ train.py [1] completed", "● train.py [1]: loss < 0.1"]
    assert subjects[2] == "✗ train.py [2] failed with exit code 3"
    assert str(mailbox.mails[0]["To"]) == RECIPIENT
    assert "on local" in mailbox.mails[0].get_content()
    assert "loss reached 0.05" in mailbox.mails[1].get_content()
    (message,) = topic.messages
    assert (message["topic"], message["title"]) == (TOPIC, subjects[2])
    for path in [Path(channels_path()), *Path(project.root).rglob("*")]:
        assert not path.is_file() or TOPIC.encode() not in path.read_bytes()


def test_notification_is_sent_once(shell: Installed, project: Project, topic: Topic) -> None:
    add(shell, "phone", topic.url)
    run = make_run(project, "p_1", state="completed")
    for event in (END, END, STALLED, STALLED):
        sending.send_all(run, event)
    assert [message["title"] for message in topic.messages] == ["✓ hello.py [1] completed", "■ hello.py [1] stalled"]
    assert results(run) == {"phone-end-1": True, "phone-stalled-1": True}


@pytest.mark.parametrize("path", [TOPIC, "hidden-%74opic", "abc"])
def test_refusal_is_recorded_without_the_secret(
    shell: Installed, project: Project, topic: Topic, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    add(shell, "phone", topic.url.replace(TOPIC, path))
    topic.code = 403
    monkeypatch.setattr(sending, "PAUSES", (0.0, 0.0))
    run = make_run(project, "p_1", state="failed")
    sending.send_all(run, END)
    assert len(topic.messages) == 3
    assert results(run) == {"phone-end-1": False}
    event = json.loads(Path(run.path, "events.jsonl").read_text().splitlines()[-1])
    assert event["reason"] == "not sent to phone: the service answered 403 Forbidden"
    topic.shutdown()
    topic.server_close()
    tested = shell.run("notify", "test")
    assert (tested.code, tested.out) == (
        1,
        "phone: the connection to the service failed; check the network, and the address and password in the URL\n",
    )


def test_resumed_run_does_not_change_the_text_about_its_end(
    shell: Installed, project: Project, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(shell, "a", topic.url)
    add(shell, "b", topic.url)
    run = make_run(project, "p_1", state="failed")
    deliver = sending.deliver

    def deliver_and_resume(channel: Channel, title: str, body: str) -> str:
        if channel.name == "a":
            add_attempt(run, Ending("failed", "x"), anew=True)
        return deliver(channel, title, body)

    monkeypatch.setattr(sending, "deliver", deliver_and_resume)
    sending.send_all(run, END)
    assert [message["title"] for message in topic.messages] == ["✗ hello.py [1] failed"] * 2
    assert results(run) == {"a-end-1": True, "b-end-1": True}


def test_long_condition_and_error_do_not_affect_others(
    shell: Installed, project: Project, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "平均交叉熵损失函数值" * 5
    add(shell, "a", topic.url, "--on", "failed", "--metric", f"{name} < 5")
    add(shell, "b", topic.url, "--on", "end")
    add(shell, "c", topic.url, "--on", "end")
    run = make_run(project, "p_1", state="completed")
    Path(run.path, "outputs").mkdir()
    Path(run.path, "outputs", "metrics.csv").write_text(f"epoch,{name}\n1,2\n")
    deliver = sending.deliver

    def deliver_or_fail(channel: Channel, title: str, body: str) -> str:
        if channel.name == "b":
            raise OSError("no process can be started")
        return deliver(channel, title, body)

    monkeypatch.setattr(sending, "deliver", deliver_or_fail)
    sending.send_all(run, END)
    titles = [message["title"] for message in topic.messages]
    assert titles == ["✓ hello.py [1] completed", f"● hello.py [1]: {name} < 5"]


def test_one_process_sends_for_many_runs(shell: Installed, project: Project, topic: Topic, home: Path) -> None:
    add(shell, "phone", topic.url)
    canceled = make_run(project, "p_9", 9)
    folder = pending.add(canceled.path, METRIC)
    with locks.lock_file(f"{folder}/{pending.LOCK}"):
        end_waiting(canceled, record_of(Path(canceled.path), 9))
        for number in (1, 2, 3):
            announce(make_run(project, f"p_{number}", number, state="completed"), END)
        pending.add("/nowhere", END)
        sender.main(folder)
        assert len(pending.names(folder)) == 5
        assert topic.messages == []
    sender.main(folder)
    until(lambda: not pending.names(folder), "all notifications")
    titles = [message["title"] for message in topic.messages]
    assert titles == [f"✓ hello.py [{number}] completed" for number in (1, 2, 3)]


def test_channels_are_listed_replaced_and_removed(shell: Installed, topic: Topic) -> None:
    add(shell, "phone", topic.url)
    add(shell, "phone", topic.url, "--on", "failed", "--metric", "val/acc > 0.9")
    (record,) = json.loads(shell.run("notify", "list", "-o", "json").out)
    assert record == {"name": "phone", "events": ["failed"], "metrics": ["val/acc > 0.9"]}
    assert shell.run("notify", "test", "phone").out == "phone: sent\n"
    assert json.loads(shell.run("notify", "test", "-o", "json").out) == [{"name": "phone", "sent": True, "error": ""}]
    assert "Choose one of: phone." in shell.run("notify", "remove", "fone").err
    assert json.loads(shell.run("notify", "remove", "phone", "-o", "json").out) == record
    assert "no channel is configured" in shell.run("notify", "test").err


def test_invalid_channels_are_refused(shell: Installed, home: Path) -> None:
    for name, url, error in (
        ("a/b", "ntfy://x/y", "is not a valid channel name"),
        ("phone", "nonsense://x", "Apprise does not support this URL"),
        ("phone", "", "--url-stdin: the first line of stdin is empty"),
    ):
        process = shell.start("notify", "add", name, "--url-stdin", stdin=subprocess.PIPE)
        assert error.encode() in process.communicate(url.encode())[1]
    Path(channels_path()).parent.mkdir(parents=True, exist_ok=True)
    for text in ("[]", "{", '{"a": {"url": "ntfy://x/y", "events": [], "metrics": []}}'):
        Path(channels_path()).write_text(text)
        with pytest.raises(ConfigurationError, match="does not contain valid notification channels"):
            load_channels()
        assert shell.submit("train.py", "0").code == 0


@pytest.mark.parametrize("text", ["loss", "loss <", "< 0.1", "loss < x", "loss <= 1"])
def test_invalid_condition_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a condition"):
        parse_condition(text)


def test_condition_is_met_by_any_value() -> None:
    assert parse_condition("val loss<1e-3").is_met(0.0001, 5)
    assert not parse_condition("loss < 0.1").is_met(0.1, 5)
    assert parse_condition("acc > -0.5").is_met(-1, 0)
    assert not parse_condition("acc > 1").is_met(float("nan"), float("nan"))


def test_stalls_and_metrics_of_active_runs_are_reported(
    shell: Installed, project: Project, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(shell, "phone", topic.url, "--on", "stalled", "--metric", "loss < 0.1", "--metric", "loss < 0.01")
    run = make_run(project, "p_1")
    Path(run.file(GPU_VERDICT)).write_text(json.dumps(to_json(Verdict("stalled", "no step for 33 min"))))
    announce(run, STALLED)
    until(lambda: len(topic.messages) == 1, "the notification about the stall")
    text = "no step for 33 min\n`workbench-tui experiment stacks -r 1` shows where it waits."
    assert topic.messages[0]["message"] == text

    monkeypatch.setattr(recording, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(recording, "INTERVAL", 0.05)
    helpers = Helpers(run)
    threads = set(threading.enumerate())
    helpers.watch_metrics()
    assert set(threading.enumerate()) <= threads  # the server's thread of the last request may have ended
    Path(run.path, "output.log").write_text("loss=0.05\n")
    helpers.metrics.read_piece()  # a watcher calls this
    until(lambda: len(topic.messages) == 2, "the notification about the metric")
    helpers.metrics.follow()  # a controller calls this
    with Path(run.path, "output.log").open("a") as log:
        log.write("loss=0.005\n")
    until(lambda: len(topic.messages) == 3, "the notification about the other metric")
    helpers.metrics.stop_following()
    titles = [message["title"] for message in topic.messages]
    assert titles[0] == "■ hello.py [1] stalled"
    assert titles[1:] == ["● hello.py [1]: loss < 0.1", "● hello.py [1]: loss < 0.01"]
