"""Notifications to services that do not work, and killed senders."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.faults.support import until
from tests.runs.notify.conftest import Mailbox, Topic, add, last_reason, results, serving
from tests.runs.support import make_run
from tui_workbench.projects.project import Project
from tui_workbench.runs.notify import delivery, pending, sender
from tui_workbench.runs.notify.announcing import SENDER, announce
from tui_workbench.runs.notify.channels import END
from tui_workbench.runs.store.rundir import RunDirectory


def ended(project: Project, number: int) -> RunDirectory:
    return make_run(project, f"p_{number}", number, state="completed")


def titles(*numbers: int) -> list[str]:
    return [f"✓ hello.py [{number}] completed" for number in numbers]


def start_sender(channel: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-P", "-m", SENDER, channel])


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_refused_request_is_not_repeated(shell: Installed, project: Project, topic: Topic, other: Topic) -> None:
    add(shell, "bad", other.url.replace("ntfy", "json"))
    add(shell, "phone", topic.url)
    other.code = 403
    runs = [ended(project, number) for number in (1, 2, 3)]
    for run in runs:
        announce(run, END)
    until(lambda: not pending.names("bad") and not pending.names("phone"), "all notifications")
    assert topic.titles == titles(1, 2, 3)
    assert [message["title"] for message in other.messages] == titles(1, 2, 3)
    assert [results(run) for run in runs] == [{"bad-end-1": False, "phone-end-1": True}] * 3


def test_service_without_an_answer_does_not_delay_others(
    shell: Installed, project: Project, topic: Topic, other: Topic
) -> None:
    add(shell, "phone", topic.url)
    add(shell, "bad", other.url)
    other.may_answer.clear()
    for number in (1, 2):
        announce(ended(project, number), END)
    until(lambda: topic.titles == titles(1, 2), "the notifications of the other channel")
    until(lambda: other.titles == titles(1), "the request")
    other.may_answer.set()
    until(lambda: other.titles == titles(1, 2), "the second request")


def test_next_process_continues_after_a_killed_one(shell: Installed, project: Project, topic: Topic) -> None:
    add(shell, "phone", topic.url, "--metric", "loss < 5")
    runs = [ended(project, number) for number in (1, 2, 3)]
    Path(runs[0].path, "output.log").write_text("loss=1\n")
    topic.may_answer.clear()
    for run in runs[:2]:
        pending.add("phone", run.path, END)
    process = start_sender("phone")
    until(lambda: topic.messages, "the first request")
    kill(process)
    topic.may_answer.set()
    announce(runs[2], END)
    until(lambda: not pending.names("phone"), "the other notifications")
    assert topic.titles == ["● hello.py [1]: loss < 5", *titles(1, 2, 3)]
    assert sorted(results(runs[0]).values(), key=str) == [None, True]


def test_unreachable_service_is_tried_again(shell: Installed, project: Project) -> None:
    with serving() as server:
        url, port = server.url, server.server_port
    processes, runs = [], [ended(project, number) for number in (1, 2)]
    for channel, run in zip(("a", "b"), runs, strict=True):
        add(shell, channel, url)
        pending.add(channel, run.path, END)
        processes.append(start_sender(channel))
    # The file of a notification exists only while it is sent.
    folders = [Path(run.path, "notifications") for run in runs]
    until(lambda: all(each.is_dir() and not list(each.iterdir()) for each in folders), "the pause after an attempt")
    kill(processes[0])
    with serving(port) as server:
        assert processes[1].wait() == 0
        assert server.titles == titles(2)
        sender.main("a")
        assert server.titles == titles(2, 1)
    assert [results(run) for run in runs] == [{"a-end-1": True}, {"b-end-1": True}]


def test_service_that_answers_late_has_accepted(shell: Installed, project: Project, topic: Topic) -> None:
    add(shell, "phone", topic.url)
    topic.may_answer.clear()
    run = ended(project, 1)
    pending.add("phone", run.path, END)
    process = start_sender("phone")
    until(lambda: topic.messages, "the request")
    timer = threading.Timer(5.0, topic.may_answer.set)  # Apprise waits for four seconds by default
    timer.start()
    assert process.wait() == 0
    timer.join()
    assert topic.titles == titles(1)
    assert results(run) == {"phone-end-1": True}


def test_request_without_an_answer_is_not_repeated(
    shell: Installed, project: Project, topic: Topic, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(shell, "mail", f"{mailbox.url}&cto=1")
    add(shell, "phone", f"{topic.url}?rto=1")
    monkeypatch.setattr(delivery, "ANSWER_SECONDS", 1.0)
    topic.may_answer.clear()
    mailbox.may_answer.clear()
    run = ended(project, 1)
    for channel in ("mail", "phone"):
        pending.add(channel, run.path, END)
        sender.main(channel)
        error = "the service did not answer in time; it may have received the notification"
        assert last_reason(run) == f"not sent to {channel}: {error}"
    assert (len(topic.messages), len(mailbox.mails)) == (1, 1)
    assert results(run) == {"mail-end-1": False, "phone-end-1": False}


def test_request_on_a_broken_connection_is_not_repeated(shell: Installed, project: Project, topic: Topic) -> None:
    add(shell, "phone", topic.url)
    topic.code = 0
    run = ended(project, 1)
    pending.add("phone", run.path, END)
    sender.main("phone")
    assert topic.titles == titles(1)
    assert results(run) == {"phone-end-1": False}


def test_refused_mail_is_not_sent_again(shell: Installed, project: Project, mailbox: Mailbox) -> None:
    add(shell, "mail", mailbox.url)
    mailbox.reply = "554 refused"
    run = ended(project, 1)
    pending.add("mail", run.path, END)
    sender.main("mail")
    assert len(mailbox.mails) == 1
    assert results(run) == {"mail-end-1": False}


def test_locked_keyring_is_asked_once(
    shell: Installed, project: Project, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(shell, "phone", topic.url)
    (tmp_path / "locked.py").write_text(
        "from keyring.backend import KeyringBackend\n"
        "from keyring.errors import KeyringLocked\n"
        "class Keyring(KeyringBackend):\n"
        "    priority = 9\n"
        "    def get_password(self, *words):\n"
        f"        open({str(tmp_path / 'asked')!r}, 'a').write('x')\n"
        "        raise KeyringLocked('The collection is locked')\n"
        "    set_password = get_password\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "locked.Keyring")
    runs = [ended(project, number) for number in (1, 2, 3)]
    for run in runs:
        pending.add("phone", run.path, END)
    sender.main("phone")
    assert (tmp_path / "asked").read_text() == "x"
    assert [results(run) for run in runs] == [{"phone-end-1": False}] * 3
