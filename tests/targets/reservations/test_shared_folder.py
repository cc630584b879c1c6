"""Runs of two real users reserve the GPUs of one machine in a shared folder. The GPUs are stand-ins."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gpu.standin import REST, Standin, gpu
from tests.gpu.standin import standin as standin
from tests.gpu.standin import standin_parts as standin_parts
from tests.targets.reservations.users import NEEDS_ROOT, UserHost, shared_folder
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.host import DEFAULT_TIMEOUT, HostProcess
from tui_workbench.targets.reservations import order
from tui_workbench.targets.reservations.folder import LONGEST_HOLD, Folder, GpusBusy

pytestmark = [pytest.mark.system, pytest.mark.skipif(os.geteuid() != 0, reason=NEEDS_ROOT)]

FIRST, SECOND = (f"GPU-{number:08d}-0000-0000-0000-000000000000" for number in (0, 1))


@pytest.fixture
def shared(standin: Standin) -> Path:
    """Two idle GPUs, and the folder in which users reserve them."""
    standin.write(gpu(0, REST), gpu(1, REST))
    return shared_folder(standin.state.parent / "shared")


@pytest.fixture
def alice(shared: Path) -> UserHost:
    return UserHost("daemon", shared.parent)


@pytest.fixture
def bob(shared: Path) -> UserHost:
    return UserHost("nobody", shared.parent)


def numbers(host: UserHost, of: RunSpec) -> list[int]:
    return [each.number for each in choice.take(host, of)]


def add(host: UserHost, shared: Path, text: str) -> None:
    """Create an entry as this user."""
    host.check(["ln", "-s", "--", text, str(shared / f"abc-{len(list(shared.iterdir()))}")])


def test_users_get_different_gpus(alice: UserHost, bob: UserHost, shared: Path) -> None:
    assert numbers(alice, alice.spec(shared)) == [0]
    assert numbers(bob, bob.spec(shared)) == [1]
    with pytest.raises(GpusBusy, match="GPU 0 is taken by project_1; GPU 1 is taken by a run of nobody"):
        choice.take(alice, alice.spec(shared, number=2))


def test_name_of_a_user_may_contain_a_space(alice: UserHost, shared: Path) -> None:
    """Stand-in: a `stat` that prints another name for the user."""
    stat = shared.parent / "stat"
    stat.write_text("#!/bin/sh\n/usr/bin/stat \"$@\" | sed 's/nobody/John Doe/'\n")
    stat.chmod(0o755)

    class Renamed(UserHost):
        def open(self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT) -> HostProcess:
            return super().open(["env", f"PATH={stat.parent}:{os.environ['PATH']}", *argv], timeout=timeout)

    john = Renamed("nobody", shared.parent)
    assert numbers(john, john.spec(shared)) == [0]
    (entry,) = Folder(john, john.spec(shared).target).read().entries
    assert (entry.user, entry.gpu) == ("John Doe", FIRST)
    assert numbers(john, john.spec(shared, number=2)) == [1]


def test_failed_change_keeps_the_reservation(alice: UserHost, shared: Path) -> None:
    add(alice, shared, f"hold {FIRST} 99999999999")
    folder = Folder(alice, alice.spec(shared).target)
    listing = folder.read()
    with pytest.raises(WorkbenchError, match="too long"):
        folder.change(listing, [f"hold {FIRST} {'9' * 5000}"], [listing.entries[0].name])
    assert folder.read().entries == listing.entries


def test_run_in_a_folder_with_spaces_keeps_its_place(alice: UserHost, bob: UserHost, shared: Path) -> None:
    add(bob, shared, f"hold {FIRST} 99999999999")
    add(bob, shared, f"hold {SECOND} 99999999999")
    directory = str(alice.runs / "my run 3")
    os.mkdir(directory)
    now = int(alice.check(["date", "+%s"]).text)
    add(alice, shared, f"wait 1 {now - 60} {directory}")
    with pytest.raises(GpusBusy):
        choice.take(alice, alice.spec(shared)._replace(run_directory=directory))
    (place,) = (text for text in map(os.readlink, shared.iterdir()) if text.startswith("wait"))
    assert place == f"wait 1 {now - 60} {directory}"


def test_later_entry_of_another_user_has_no_effect(alice: UserHost, bob: UserHost, shared: Path) -> None:
    add(alice, shared, f"hold {FIRST} 99999999999")
    add(alice, shared, f"hold {SECOND} 99999999999")
    listing = Folder(alice, alice.spec(shared).target).read()
    later = listing.entries[0]._replace(uid=listing.uid + 1, created=listing.now + 1)
    for entry in (later, later._replace(kind="run")):
        with_entry = listing._replace(entries=(*listing.entries, entry))
        assert order.holder(with_entry, entry.gpu) is None
        assert order.holder(with_entry._replace(uid=entry.uid), entry.gpu) is not None


def test_run_that_cannot_get_its_gpus_keeps_none_idle(alice: UserHost, bob: UserHost, shared: Path) -> None:
    add(bob, shared, "wait 1000000 0 /x")
    assert numbers(alice, alice.spec(shared)) == [0]
    choice.release(alice, alice.spec(shared))
    add(UserHost("bin", shared.parent), shared, f"hold {FIRST} 99999999999")
    add(bob, shared, "wait 2 0 /y")
    assert numbers(alice, alice.spec(shared)) == [1]


def test_user_with_fewest_gpus_comes_first(alice: UserHost, bob: UserHost, shared: Path) -> None:
    one, two = alice.spec(shared), alice.spec(shared, number=2)
    choice.take(alice, one)
    add(bob, shared, f"hold {SECOND} 99999999999")
    with pytest.raises(GpusBusy):
        choice.take(alice, two)
    third = UserHost("bin", shared.parent)
    with pytest.raises(GpusBusy):
        choice.take(third, third.spec(shared))
    bob.check(["sh", "-c", f"rm {shared}/abc-*"])
    with pytest.raises(GpusBusy, match=r"1 waiting run comes first \(bin\)"):
        choice.take(alice, two)
    assert numbers(third, third.spec(shared)) == [1]


def test_oldest_run_comes_first_among_equals(alice: UserHost, bob: UserHost, shared: Path) -> None:
    both = alice.spec(shared, gpus="2")
    add(bob, shared, f"hold {FIRST} 99999999999")
    now = int(alice.check(["date", "+%s"]).text)
    add(bob, shared, f"wait 2 {now - 60} {bob.runs}/project_1")
    bob.spec(shared, gpus="2")
    with pytest.raises(GpusBusy):
        choice.take(alice, both)
    bob.check(["sh", "-c", f"cd {shared}; for each in *; do case $(readlink $each) in hold*) rm $each; esac; done"])
    with pytest.raises(GpusBusy, match=r"1 waiting run comes first \(nobody\)"):
        choice.take(alice, both)
    assert numbers(bob, bob.spec(shared, gpus="2")) == [0, 1]


def test_own_reservation_is_used_by_own_runs(alice: UserHost, bob: UserHost, shared: Path) -> None:
    add(alice, shared, f"hold {FIRST} 99999999999")
    assert numbers(bob, bob.spec(shared)) == [1]
    assert numbers(alice, alice.spec(shared)) == [0]


def test_user_cannot_remove_a_reservation_of_another(alice: UserHost, bob: UserHost, shared: Path) -> None:
    choice.take(alice, alice.spec(shared))
    (entry,) = shared.iterdir()
    assert bob.run(["rm", "-f", str(entry)]).code != 0
    choice.release(bob, bob.spec(shared))
    assert os.path.islink(entry)


def test_user_outside_the_group_gets_an_error(alice: UserHost, shared: Path) -> None:
    stranger = UserHost("bin", shared.parent, in_group=False)
    with pytest.raises(ConfigurationError, match="you have no permission to use"):
        choice.take(stranger, stranger.spec(shared))


def test_folder_without_sticky_bit_is_refused(alice: UserHost, shared: Path) -> None:
    shared.chmod(0o2770)
    with pytest.raises(ConfigurationError, match="has no sticky bit"):
        choice.take(alice, alice.spec(shared))


def test_missing_folder_is_reported_with_the_command(alice: UserHost, shared: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        choice.take(alice, alice.spec(shared / "none"))
    assert "install -d -m 3770" in str(refused.value.remedy)


def test_hostile_entries_have_no_effect(alice: UserHost, bob: UserHost, shared: Path) -> None:
    bob.check(["mkfifo", str(shared / "fifo")])
    bob.check(["mkdir", str(shared / "folder")])
    bob.check(["truncate", "-s", "100G", str(shared / "huge")])
    for text in (
        "/etc/passwd",
        f"run {FIRST}",
        f"hold {FIRST} soon",
        f"hold {FIRST} {'9' * 400}",
        "wait 9999999 -5 /x",
        f"wait 0 0 {alice.runs}/project_1",
        f"- {os.getuid()} 1 root - hold {FIRST} 99999999999",
        f"a\nabc 0 1 root - hold {FIRST} 99999999999",
        "x" * 4000,
    ):
        add(bob, shared, text)
    bob.check(["ln", "-s", f"hold {SECOND} 99999999999", str(shared / "a\x1b[2J\nb c")])
    listing = Folder(alice, alice.spec(shared).target).read()
    assert {(each.kind, each.user) for each in listing.entries} <= {("hold", "nobody"), ("wait", "nobody")}
    ends = [each.moment - each.created for each in listing.entries if each.kind == "hold"]
    assert all(seconds <= LONGEST_HOLD for seconds in ends)
    assert sorted(each.gpu for each in listing.of_kind("hold")) == [SECOND]


def test_many_entries_are_refused(alice: UserHost, bob: UserHost, shared: Path) -> None:
    bob.check(["sh", "-c", f"cd {shared} && ln -s $(seq -f /x%g 201) ."])
    with pytest.raises(GpusBusy, match="more than 200 links"):
        choice.take(alice, alice.spec(shared))


def test_supervising_shell_releases_the_gpus(alice: UserHost, bob: UserHost, shared: Path) -> None:
    one = alice.spec(shared, gpus="2")
    choice.take(alice, one)
    os.chown(one.run_directory, alice.runs.stat().st_uid, -1)
    variables = choice.folder_variables(one.target)
    words = [f"{name}={value}" for name, value in variables.items()]
    alice.check(["env", *words, "sh", "-c", supervisor.TEXT, "sh", one.run_directory, "/", "true"])
    assert list(shared.iterdir()) == []
    assert numbers(bob, bob.spec(shared, gpus="2")) == [0, 1]


def test_reading_needs_no_lock(alice: UserHost, shared: Path) -> None:
    with subprocess.Popen(["flock", str(shared), "sh", "-c", "echo; read x"], stdin=-1, stdout=-1) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert Folder(alice, alice.spec(shared).target).read().entries == ()
        holder.communicate(b"\n")
