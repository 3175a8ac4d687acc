"""Two machines with one state directory: the second is refused, and the first loses nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hosts import Box, missing
from stoker.api import claim
from stoker_home import lines_of
from waiting import eventually

Boxes = Callable[..., Box]


@pytest.fixture
def boxes(tmp_path: Path) -> Iterator[Boxes]:
    """Makes machines that share a home."""
    why = missing()
    if why:
        pytest.skip(f"no machines can be made of namespaces here: {why}")
    made: list[Box] = []

    def box(name: str, *, boot: str = "", locks_cross: bool = True, on_nfs: bool = False) -> Box:
        home = tmp_path / "home"
        made.append(Box(tmp_path, name, home, locks_cross=locks_cross, on_nfs=on_nfs))
        made[-1].power_on(boot)
        return made[-1]

    yield box
    for one in made:
        one.power_off()


def runs_long(box: Box, tmp_path: Path) -> Path:
    """Have a job run in the box until a file is there; where it writes a line at each start."""
    ran, go = tmp_path / "ran", tmp_path / "go"
    script = f"echo $STOKER_ATTEMPT >> {ran}; until [ -e {go} ]; do sleep 0.02; done; exit 7"
    box.stoker("add", "--gpus", "0", "--", "sh", "-c", script)
    eventually(lambda: lines_of(ran) == ["1"], "the job runs")
    eventually(lambda: job(box)["state"] == "running", "its start is known")
    return ran


def job(box: Box) -> dict[str, object]:
    found: dict[str, object] = json.loads(box.stoker("show", "1", "--json"))["job"]
    return found


def grows_old(home: Path) -> None:
    """Let the claim be one that was not renewed for an hour."""
    long_ago = time.time() - 3600
    os.utime(home / "claim", (long_ago, long_ago))


@pytest.mark.parametrize("locks_cross", [True, False])
@pytest.mark.parametrize("daemon_is", ["running", "stopped", "killed"])
def test_the_second_machine_is_refused_by_name_and_the_first_ones_job_goes_on(
    boxes: Boxes, tmp_path: Path, locks_cross: bool, daemon_is: str
) -> None:
    first, second = boxes("alpha"), boxes("beta", locks_cross=locks_cross)
    ran = runs_long(first, tmp_path)
    if daemon_is == "stopped":
        first.stoker("daemon", "stop")
    elif daemon_is == "killed":
        first.kill(first.daemons())
    for words in (["ls"], ["add", "--gpus", "0", "--", "true"], ["daemon", "start"]):
        refused = second.cli(*words)
        assert refused.code == 1
        assert "in use by alpha (user " in refused.err and "since 20" in refused.err
    status = second.cli("daemon", "status")
    assert status.code == 4 and "host    alpha (user " in status.out
    assert ": another machine" in status.out
    assert "in use by alpha" in status.err and "STOKER_HOME" in status.err, "and what to do"
    place = json.loads(second.cli("daemon", "status", "--json").out)["place"]
    assert (place["host"], place["is_here"]) == ("alpha", False) and place["since_at"]
    assert not second.daemons()
    (tmp_path / "go").touch()
    assert first.cli("wait", "1").code == 7
    assert lines_of(ran) == ["1"]


def test_the_second_machine_is_refused_within_a_second(boxes: Boxes) -> None:
    first, second = boxes("alpha"), boxes("beta")
    first.stoker("daemon", "start")

    def seconds(*words: str) -> float:
        began = time.monotonic()
        second.cli(*words)
        return time.monotonic() - began

    # The machine may be busy, so only what comes on top of an interpreter's own start counts.
    start = min(seconds("--version") for _ in range(3))
    for words in (["ls"], ["add", "--gpus", "0", "--", "true"], ["daemon", "start"]):
        assert min(seconds(*words) for _ in range(3)) < start + 1.0, words


def test_where_the_home_is_on_nfs_each_machine_has_its_own_queue_and_logs_under_its_name(
    boxes: Boxes, tmp_path: Path
) -> None:
    machines = [boxes("alpha", on_nfs=True), boxes("beta", on_nfs=True)]
    usual = tmp_path / "home" / ".local" / "state" / "stoker"
    local = f"/var/tmp/stoker-{os.geteuid()}"
    for box in machines:
        added = box.cli("add", "--gpus", "0", "--", "sh", "-c", "echo from $(uname -n)")
        logs = usual / "hosts" / box.name
        assert (added.code, added.out) == (0, "1\n"), "each has a job 1"
        assert f"{usual} is on nfs4" in added.err and added.err.count("\n") == 1
        assert local in added.err and str(logs) in added.err
        assert box.cli("wait", "1").err == "", "it is said once"
        log = Path(str(job(box)["log"]))
        assert log.is_relative_to(logs) and log.read_text() == f"from {box.name}\n"
        status = box.stoker("daemon", "status")
        assert f"state   {local}\n" in status and f"logs    {logs}\n" in status
    assert [len(box.daemons()) for box in machines] == [1, 1]
    assert os.listdir(usual) == ["hosts"], "no database, ledger, lock or socket is shared"
    first = machines[0]
    first.power_off()
    first.power_on()
    assert job(first)["state"] == "succeeded", "it is there after a restart"
    database = next(tmp_path.glob("box-alpha/var-tmp/*/stoker.db"))
    assert database.stat().st_mode & 0o7777 == 0o1600, "and not tidied up"


def test_a_state_in_which_nothing_runs_is_free_once_its_daemon_has_stopped(
    boxes: Boxes,
) -> None:
    first, second = boxes("alpha"), boxes("beta")
    first.stoker("add", "--gpus", "0", "--", "true")
    first.stoker("wait", "1")
    first.stoker("daemon", "stop")
    assert "true" in second.stoker("ls", "--all")
    assert "in use by beta" in first.cli("ls").err


def test_the_same_machine_goes_on_after_a_restart(boxes: Boxes, tmp_path: Path) -> None:
    first = boxes("alpha")
    runs_long(first, tmp_path)
    first.power_off()
    first.power_on()
    assert job(first)["state"] == "lost"
    assert "machine went down" in str(job(first)["reason"])


def test_the_state_of_a_dead_machine_can_be_claimed_and_its_jobs_are_lost_not_run_again(
    boxes: Boxes, tmp_path: Path
) -> None:
    first, second = boxes("alpha"), boxes("beta")
    ran = runs_long(first, tmp_path)
    first.power_off()
    early = second.cli("daemon", "claim")
    assert early.code == 1 and "in use by alpha" in early.err, "it may be alive"
    grows_old(tmp_path / "home")
    refused = second.cli("ls")
    assert refused.code == 1 and "stoker daemon claim" in refused.err
    claimed = second.cli("daemon", "claim")
    assert claimed.code == 0 and "alpha" in claimed.err
    again = second.cli("daemon", "claim")
    assert again.code == 0 and "is this machine's" in again.err and "lost" not in again.err
    shown = job(second)
    assert shown["state"] == "lost" and "alpha" in str(shown["reason"])
    assert lines_of(ran) == ["1"]
    first.power_on()
    assert "in use by beta" in first.cli("ls").err


def test_an_exit_that_the_dead_machine_wrote_down_is_the_truth_for_the_next(
    boxes: Boxes, tmp_path: Path
) -> None:
    first, second = boxes("alpha"), boxes("beta")
    runs_long(first, tmp_path)
    first.kill(first.daemons())
    (tmp_path / "go").touch()
    eventually(lambda: not first.keepers(), "the keeper has written how it ended")
    first.power_off()
    grows_old(tmp_path / "home")
    second.stoker("daemon", "claim")
    assert (job(second)["state"], job(second)["exit_code"]) == ("failed", 7)


def state_of(pid: int) -> str:
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2]


def sleeps_between_commits(daemon: int, home: Path) -> bool:
    """Stop a daemon, unless it has the database just now: then that would stay locked."""
    os.kill(daemon, 19)
    eventually(lambda: state_of(daemon) == "T", "it is stopped")
    with closing(sqlite3.connect(home / "stoker.db", timeout=0, isolation_level=None)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
        except sqlite3.OperationalError:
            os.kill(daemon, 18)
            return False
    return True


def test_a_daemon_whose_state_was_claimed_while_it_slept_ends_and_its_job_goes_on(
    boxes: Boxes, tmp_path: Path
) -> None:
    first, second = boxes("alpha"), boxes("beta", locks_cross=False)
    runs_long(first, tmp_path)
    [daemon] = first.daemons()
    eventually(lambda: sleeps_between_commits(daemon, tmp_path / "home"), "it sleeps")
    grows_old(tmp_path / "home")
    second.stoker("daemon", "claim")
    assert job(second)["state"] == "lost"
    os.kill(daemon, 18)
    eventually(lambda: not first.daemons(), "it has seen that the state is another's")
    assert "in use by beta" in (tmp_path / "home" / "daemon.log").read_text()
    assert len(second.daemons()) == 1 and first.keepers()


def test_a_container_that_shares_the_home_does_not_take_its_hosts_jobs_for_lost(
    boxes: Boxes, tmp_path: Path
) -> None:
    boot = "11111111-2222-3333-4444-555555555555"
    first, second = boxes("alpha", boot=boot), boxes("beta", boot=boot)
    runs_long(first, tmp_path)
    assert second.stoker("ls").count("running") == 1, "it reaches the one daemon of the machine"
    first.kill(first.daemons())
    refused = second.cli("ls")
    assert refused.code == 1 and "another container" in refused.err
    (tmp_path / "go").touch()
    assert first.cli("wait", "1").code == 7


def test_jobs_of_a_container_that_ended_are_lost_for_the_next_one(
    boxes: Boxes, tmp_path: Path
) -> None:
    boot = "11111111-2222-3333-4444-555555555555"
    first = boxes("alpha", boot=boot)
    ran = runs_long(first, tmp_path)
    first.power_off()
    first.power_on(boot)
    assert job(first)["state"] == "lost" and "container ended" in str(job(first)["reason"])
    assert lines_of(ran) == ["1"]


def test_the_claim_is_renewed_while_the_daemon_runs(boxes: Boxes, tmp_path: Path) -> None:
    first = boxes("alpha")
    first.stoker("daemon", "start")
    grows_old(tmp_path / "home")
    path = tmp_path / "home" / "claim"
    eventually(lambda: path.stat().st_mtime > time.time() - claim.SILENT_AFTER_S, "it is renewed")
