"""Notifications about runs, sent to real servers for e-mail and HTTP."""

from __future__ import annotations

import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.faults.support import until
from tests.runs.notify.conftest import RECIPIENT, TOPIC, Mailbox, Topic, add, last_reason, results
from tests.runs.support import make_run, record_of
from tui_workbench.core import causes as core_causes
from tui_workbench.core import locks
from tui_workbench.core.causes import (
    CANCELED,
    GPU_NOT_USED,
    IDLE,
    TIME_LIMIT,
    Cause,
    Causes,
    of_attempt,
    plain,
    text_of,
    without_attempt,
)
from tui_workbench.core.directories import channels_path
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.gpu.verdict import Verdict, to_json
from tui_workbench.runs.lifecycle.helpers import Helpers
from tui_workbench.runs.lifecycle.retrying import add_attempt
from tui_workbench.runs.lifecycle.starting import end_waiting
from tui_workbench.runs.metrics import recording
from tui_workbench.runs.notify import delivery, pending, sender, sending
from tui_workbench.runs.notify.announcing import announce
from tui_workbench.runs.notify.buses import Address
from tui_workbench.runs.notify.changing import add_channel
from tui_workbench.runs.notify.channels import END, METRIC, STALLED, load_channels, parse_condition
from tui_workbench.runs.notify.delivery import Delivery
from tui_workbench.runs.store.rundir import GPU_VERDICT, Ending, RunDirectory


def send(run: RunDirectory, event: str) -> None:
    """Send the notifications about an event in this process."""
    for channel in load_channels():
        pending.add(channel.name, run.path, event)
        sender.main(channel.name)


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
    assert subjects[:2] == ["● train.py [1]: loss < 0.1", "✓ train.py [1] completed"]
    assert subjects[3] == "✗ train.py [2] failed with exit code 3"
    assert str(mailbox.mails[0]["To"]) == RECIPIENT
    assert "loss reached 0.05" in mailbox.mails[0].get_content()
    assert "on local" in mailbox.mails[1].get_content()
    (message,) = topic.messages
    assert (message["topic"], message["title"]) == (TOPIC, subjects[3])
    for path in [Path(channels_path()), *Path(project.root).rglob("*")]:
        assert not path.is_file() or TOPIC.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("state", "causes", "seconds", "kind", "body"),
    [
        ("completed", (), 4, "success", "It ran for 4 s on local."),
        ("failed", plain("it was killed"), 125, "failure", "it was killed\nIt ran for 2 min 5 s on local."),
        ("canceled", (Cause(CANCELED),), 3720.4, "info", "It ran for 1 h 2 min on local."),
        (
            "canceled",
            (Cause(TIME_LIMIT, {"minutes": 1}),),
            60,
            "failure",
            "MaxDurationMinutes: ended after 1 min\nIt ran for 1 min 0 s on local.",
        ),
        (
            "unknown",
            plain("its machine was restarted"),
            1,
            "warning",
            "its machine was restarted\nIt ran for 1 s on local.",
        ),
    ],
)
def test_end_has_a_kind_and_a_duration(
    shell: Installed, project: Project, topic: Topic, state: str, causes: Causes, seconds: float, kind: str, body: str
) -> None:
    add(shell, "phone", topic.url.replace("ntfy", "json"), "--on", "end")
    run = make_run(project, "p_1")
    end = run.run().start + seconds
    run.append_event("state", state=state, causes=causes, final=True, end=end)
    send(run, END)
    (message,) = topic.messages
    assert (message["type"], message["message"]) == (kind, body)


def test_stalls_and_metrics_are_warnings(shell: Installed, project: Project, topic: Topic) -> None:
    add(shell, "phone", topic.url.replace("ntfy", "json"), "--on", "stalled", "--metric", "loss < 5")
    run = make_run(project, "p_1")
    Path(run.path, "output.log").write_text("loss=1\n")
    for event in (STALLED, METRIC):
        send(run, event)
    assert [message["type"] for message in topic.messages] == ["warning", "warning"]


def test_notification_is_sent_once(shell: Installed, project: Project, topic: Topic) -> None:
    add(shell, "phone", topic.url)
    run = make_run(project, "p_1", state="completed")
    for event in (END, END, STALLED, STALLED):
        send(run, event)
    assert topic.titles == ["✓ hello.py [1] completed", "■ hello.py [1] stalled"]
    assert results(run) == {"phone-end-1": True, "phone-stalled-1": True}


STALL = Cause(core_causes.STALLED, {"minutes": 1})


@pytest.mark.parametrize(
    ("state", "causes", "reporting"),
    [
        ("canceled", (STALL,), ["failed", "stalled", "both"]),
        ("canceled", of_attempt(2, (STALL,)), ["failed", "stalled", "both"]),
        ("canceled", (Cause(IDLE, {"minutes": 1}),), ["failed", "both"]),
        ("canceled", (Cause(TIME_LIMIT, {"minutes": 1}),), ["failed", "both"]),
        ("failed", (Cause(GPU_NOT_USED, {"error": ""}),), ["failed", "both"]),
        ("canceled", (Cause(CANCELED),), []),
    ],
)
def test_end_by_a_policy_is_a_failure(
    shell: Installed, project: Project, topic: Topic, state: str, causes: Causes, reporting: list[str]
) -> None:
    add(shell, "failed", topic.url, "--on", "failed")
    add(shell, "stalled", topic.url, "--on", "stalled")
    add(shell, "both", topic.url, "--on", "failed", "--on", "stalled")
    run = make_run(project, "p_1", state=state, causes=causes)
    announce(run, END)
    until(lambda: not any(map(pending.names, ("failed", "stalled", "both"))), "all notifications")
    assert results(run) == {f"{channel}-end-1": True for channel in reporting}
    assert len(topic.messages) == len(reporting)
    for message in topic.messages:
        policy = text_of(without_attempt(causes)).partition(":")[0]
        assert message["title"] == f"⊘ hello.py [1] canceled by {policy}" or state == "failed"
        assert text_of(causes) in message["message"]


@pytest.mark.parametrize("path", [TOPIC, "hidden-%74opic", "abc"])
def test_refusal_is_recorded_without_the_secret(shell: Installed, project: Project, topic: Topic, path: str) -> None:
    add(shell, "phone", topic.url.replace(TOPIC, path))
    topic.code = 403
    run = make_run(project, "p_1", state="failed")
    send(run, END)
    assert len(topic.messages) == 1
    assert results(run) == {"phone-end-1": False}
    assert last_reason(run) == "not sent to phone: the service answered 403 Forbidden"
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
    add(shell, "phone", topic.url, "--on", "end", "--metric", "loss < 5")
    run = make_run(project, "p_1", state="failed")
    Path(run.path, "output.log").write_text("loss=0.05\n")
    deliver = delivery.deliver

    def deliver_and_resume(address: Address, title: str, body: str, kind: str) -> Delivery:
        if run.run().state == "failed":
            add_attempt(run, Ending("failed", plain("x")), anew=True)
        return deliver(address, title, body, kind)

    monkeypatch.setattr(sending, "deliver", deliver_and_resume)
    send(run, END)
    assert topic.titles == ["● hello.py [1]: loss < 5", "✗ hello.py [1] failed"]


def test_condition_can_be_long(shell: Installed, project: Project, topic: Topic) -> None:
    name = "平均交叉熵损失函数值" * 5
    add(shell, "phone", topic.url, "--on", "failed", "--metric", f"{name} < 5")
    run = make_run(project, "p_1", state="completed")
    Path(run.path, "outputs").mkdir()
    Path(run.path, "outputs", "metrics.csv").write_text(f"epoch,{name}\n1,2\n")
    send(run, END)
    assert topic.titles == [f"● hello.py [1]: {name} < 5"]


def test_numbers_in_a_text_are_short(shell: Installed, project: Project, topic: Topic) -> None:
    add(shell, "phone", topic.url, "--metric", "loss < 0.5")
    run = make_run(project, "p_1")
    Path(run.path, "output.log").write_text("loss=0.22\nloss=0.21999999999999997\n")
    send(run, METRIC)
    assert topic.messages[0]["message"] == "loss reached 0.22; the last value is 0.22."


def test_one_process_sends_for_many_runs(shell: Installed, project: Project, topic: Topic, home: Path) -> None:
    add(shell, "phone", topic.url, "--on", "end", "--metric", "loss < 5")
    canceled = make_run(project, "p_9", 9)
    pending.add("phone", canceled.path, METRIC)
    with locks.lock_file(f"{pending.folder_of('phone')}/{pending.LOCK}"):
        end_waiting(canceled, record_of(Path(canceled.path), 9))
        for number in (1, 2, 3):
            announce(make_run(project, f"p_{number}", number, state="completed"), END)
        pending.add("phone", "/nowhere", END)
        sender.main("phone")
        assert len(pending.names("phone")) == 5
        assert topic.messages == []
    sender.main("phone")
    until(lambda: not pending.names("phone"), "all notifications")
    assert topic.titles == [f"✓ hello.py [{number}] completed" for number in (1, 2, 3)]


def test_channels_are_listed_replaced_and_removed(shell: Installed, project: Project, topic: Topic) -> None:
    add(shell, "phone", topic.url)
    process = shell.start("notify", "add", "phone", "--url-stdin", stdin=subprocess.PIPE)
    error = process.communicate(topic.url.encode())[1].decode()
    assert "a channel named 'phone' already exists" in error
    assert "--replace" in error
    (record,) = json.loads(shell.run("notify", "list", "-o", "json").out)
    assert record == {"name": "phone", "events": ["end", "stalled"], "metrics": []}
    add(shell, "phone", topic.url, "--replace", "--on", "failed", "--metric", "val/acc > 0.9")
    (record,) = json.loads(shell.run("notify", "list", "-o", "json").out)
    assert record == {"name": "phone", "events": ["failed"], "metrics": ["val/acc > 0.9"]}
    assert shell.run("notify", "test", "phone").out == "phone: sent\n"
    assert json.loads(shell.run("notify", "test", "-o", "json").out) == [{"name": "phone", "sent": True, "error": ""}]
    assert "Choose one of: phone." in shell.run("notify", "remove", "fone").err
    pending.add("phone", make_run(project, "p_1", state="failed").path, END)
    assert json.loads(shell.run("notify", "remove", "phone", "-o", "json").out) == record
    assert pending.names("phone") == []
    assert "no channel is configured" in shell.run("notify", "test").err


def test_channels_that_are_added_at_once_are_all_kept(keyring: Path, topic: Topic) -> None:
    names = [f"phone{number}" for number in range(8)]
    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(lambda name: add_channel(name, topic.url, ["end"], []), names))
    assert [channel.name for channel in load_channels()] == names


def test_url_is_asked_for_only_in_a_terminal(shell: Installed, home: Path) -> None:
    process = shell.start("notify", "add", "phone", start_new_session=True)
    error = process.communicate()[1].decode()
    assert process.returncode == 2
    assert "cannot ask for the URL: not a terminal" in error
    assert "--url-stdin" in error
    assert "password" not in error


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
    assert topic.titles[0] == "■ hello.py [1] stalled"
    assert topic.titles[1:] == ["● hello.py [1]: loss < 0.1", "● hello.py [1]: loss < 0.01"]
