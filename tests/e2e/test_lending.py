"""The daemon that tests borrow: as new for each, or another one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lending import Lender
from stoker_home import StokerHome, is_running, kill_and_wait, pid_in
from waiting import PATIENCE_S, eventually


class Borrowers:
    """Tests, one after the other."""

    def __init__(self, root: Path) -> None:
        self.lender = Lender(root)
        self._root = root
        self._count = 0

    def next(self) -> StokerHome:
        """A Stoker as the next test has it."""
        self._count += 1
        place = self._root / f"test-{self._count}"
        place.mkdir()
        return self.lender.lend(place)


@pytest.fixture
def borrowers(tmp_path: Path) -> Iterator[Borrowers]:
    found = Borrowers(tmp_path)
    yield found
    found.lender.close()


def test_what_a_test_has_left_or_set_is_not_there_for_the_next_and_the_daemon_is_the_same(
    borrowers: Borrowers,
) -> None:
    lender, first = borrowers.lender, borrowers.next()
    daemon, settings = first.daemon_pid(), first.call("config_get")
    assert first.submit("sleep", "600", group="limited") == first.first_id
    first.submit("true", hold=True, group="paused")
    first.submit("false")
    pid_file = first.work / "pid"
    first.submit("sh", "-c", f"trap '' TERM; echo $$ > {pid_file}; sleep 600; sleep 600")
    client = first.popen("wait", "--all", stderr=subprocess.DEVNULL)
    stubborn = pid_in(pid_file)
    first.call("limit_group", group="limited", max_running=1)
    first.call("pause", group="paused")
    first.call("pause")
    first.call("config_set", name="grace", value="1s")
    first.call("gpu_drain", gpus=["3"])
    first.call("config_set", name="gpus", value="0-5:24G")
    lender.take_back()
    client.wait(PATIENCE_S)
    assert not is_running(stubborn)
    second = borrowers.next()
    assert (lender.started, second.daemon_pid()) == (1, daemon)
    assert second.jobs() == {}
    assert second.call("groups")["groups"] == []
    assert second.call("config_get") == settings
    status = second.call("status")
    assert not status["paused"]
    assert [(gpu["id"], gpu["state"], gpu["memory_mib"]) for gpu in status["gpus"]] == [
        (str(number), "free", None) for number in range(4)
    ]
    job = second.submit("true")
    assert job == second.first_id
    assert second.until_final(job)[0]["state"] == "succeeded"


def test_a_daemon_that_was_killed_or_replaced_is_not_lent_again(borrowers: Borrowers) -> None:
    lender, stoker = borrowers.lender, borrowers.next()
    kill_and_wait(stoker.daemon_pid())
    lender.take_back()
    stoker = borrowers.next()
    assert lender.started == 2
    daemon = stoker.daemon_pid()
    stoker.stoker("daemon", "restart")
    lender.take_back()
    assert not is_running(daemon) and not stoker.processes()
    stoker = borrowers.next()
    assert stoker.submit("true") == stoker.first_id
    assert lender.started == 3


def test_the_daemon_of_a_failed_test_ends_with_all_that_it_ran(borrowers: Borrowers) -> None:
    lender, stoker = borrowers.lender, borrowers.next()
    pid_file = stoker.work / "pid"
    stoker.submit("sh", "-c", f"trap '' TERM; echo $$ > {pid_file}; sleep 600; sleep 600")
    client = stoker.popen("wait", "--all")
    job = pid_in(pid_file)
    lender.take_back(spoilt=True)
    assert not is_running(job)
    eventually(lambda: client.poll() is not None, "it has gone with the rest")
    assert not stoker.processes()
    assert borrowers.next().jobs() == {}
    assert lender.started == 2


def test_a_borrowed_daemon_has_nothing_of_the_environment_of_its_first_test(
    borrowers: Borrowers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_ONE_TEST", "1")
    daemon = borrowers.next().daemon_pid()
    environment = Path(f"/proc/{daemon}/environ").read_bytes().split(b"\0")
    assert b"OF_ONE_TEST=1" not in environment
    assert any(item.startswith(b"PATH=") for item in environment)
    assert os.environ["OF_ONE_TEST"] == "1"
