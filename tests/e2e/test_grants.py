"""`stoker run`: what was cancelled never runs, whatever its client is doing meanwhile.

Each job writes down when it begins and when it ends; what the daemon says of it is compared with
that, and not with anything else that Stoker says.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from stoker.errors import Failed
from stoker_home import StokerHome, is_running, kill_and_wait, lines_of
from waiting import eventually

ROUNDS = int(os.environ.get("STOKER_TEST_ROUNDS", "12"))


class Diary:
    """What jobs wrote down themselves."""

    def __init__(self, home: StokerHome) -> None:
        self.path: Path = home.work / "diary"

    def command(self, name: str, between: str = "sleep 0.3") -> list[str]:
        note = f'echo {name} %s "$STOKER_GPUS" >> {self.path}'
        return ["sh", "-c", f"{note % 'began'}; {between}; {note % 'ended'}"]

    def has(self, name: str, what: str) -> bool:
        return any(line.split()[:2] == [name, what] for line in lines_of(self.path))


def run(home: StokerHome, *words: str) -> subprocess.Popen[bytes]:
    """A `stoker run` in a process group of its own, as a shell starts it."""
    return home.popen("run", *words, stderr=subprocess.PIPE, stdout=-3, process_group=0)


def stop(client: subprocess.Popen[bytes]) -> None:
    """Ctrl-Z."""
    os.killpg(client.pid, signal.SIGSTOP)
    eventually(lambda: _is_stopped(client.pid), "the client is stopped")


def go_on(client: subprocess.Popen[bytes]) -> None:
    """`fg`."""
    os.killpg(client.pid, signal.SIGCONT)


def _is_stopped(pid: int) -> bool:
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2] == "T"


def until_queued(home: StokerHome, count: int) -> None:
    eventually(lambda: len(home.jobs()) == count, f"{count} jobs are queued")


def until_running(home: StokerHome, job_id: int) -> None:
    """Return within a fraction of a millisecond: the client is only just being told."""
    until_queued(home, job_id)
    with home.client() as client:
        select = {"ids": [str(job_id)]}
        while client.call("show", select=select)["jobs"][0]["state"] == "waiting":
            pass


def cancel(home: StokerHome, job_id: int) -> None:
    home.call("cancel", select={"ids": [str(job_id)]})


def stopped_when_its_turn_comes(home: StokerHome, diary: Diary) -> subprocess.Popen[bytes]:
    """The client of job 2, which was stopped while it waited for the GPU that is free now."""
    blocker = home.submit("sleep", "600")
    home.until_state(blocker, "running")
    client = run(home, "--", *diary.command("attached"))
    until_queued(home, 2)
    eventually(lambda: home.job(2)["reason"].startswith("needs 1 GPU"), "its client is there")
    stop(client)
    cancel(home, blocker)
    return client


@pytest.fixture
def one(home: StokerHome) -> StokerHome:
    """A Stoker with one GPU."""
    home.start(gpus="0")
    return home


def test_a_job_that_is_cancelled_as_it_starts_does_not_run_to_its_end(one: StokerHome) -> None:
    diary = Diary(one)
    clients = []
    for number in range(1, ROUNDS + 1):
        clients.append(run(one, "--", *diary.command(f"job{number}", between="sleep 60")))
        until_running(one, number)
        deadline = time.monotonic() + (number % 5) / 1000
        while time.monotonic() < deadline:
            pass
        cancel(one, number)
        after = one.until_final(number)[0]
        assert after["state"] == "cancelled"
        # It is over by now: what has not begun never will, and what has was stopped.
        assert not diary.has(f"job{number}", "ended")
    for client in clients:
        assert client.wait(60) != 0
        client.communicate()
    wrong = [n for n in range(1, ROUNDS + 1) if diary.has(f"job{n}", "ended")]
    assert not wrong, f"{len(wrong)} of {ROUNDS} ran to their ends, and are cancelled"


def test_a_stopped_client_does_not_start_what_was_cancelled_meanwhile(one: StokerHome) -> None:
    diary = Diary(one)
    client = stopped_when_its_turn_comes(one, diary)
    one.until_state(2, "running", "cancelled")
    cancel(one, 2)
    assert one.until_final(2)[0]["state"] == "cancelled"
    other = one.submit("sleep", "600")
    one.until_state(other, "running")
    go_on(client)
    assert client.wait(60) != 0
    assert b"job 2 cancelled" in client.communicate()[1]
    assert not diary.has("attached", "began")
    assert one.job(other)["state"] == "running"


def test_a_client_that_does_not_answer_loses_its_turn_and_is_told_so(one: StokerHome) -> None:
    diary = Diary(one)
    client = stopped_when_its_turn_comes(one, diary)
    one.until_state(2, "running")
    other = one.submit(*diary.command("other"))
    ended = one.until_final(2)[0]
    assert (ended["state"], ended["pid"]) == ("cancelled", None)
    assert ended["reason"] == "its terminal did not answer within 15 s"
    assert one.until_final(other)[0]["state"] == "succeeded"
    go_on(client)
    assert client.wait(60) != 0
    assert b"its terminal did not answer within 15 s" in client.communicate()[1]
    assert not diary.has("attached", "began")


def test_after_a_restart_no_gpu_is_held_for_a_client_that_is_gone(one: StokerHome) -> None:
    blocker = one.submit("sleep", "600")
    one.until_state(blocker, "running")
    client = run(one, "--", "true")
    until_queued(one, 2)
    stop(client)
    kill_and_wait(one.daemon_pid())
    client.kill()
    client.communicate()
    for _ in range(2):
        one.start()
        cancel(one, one.submit("sleep", "600"))  # There is a turn after the first.
        assert one.job(2)["state"] == "waiting"
        kill_and_wait(one.daemon_pid())
    one.start()
    assert "terminal" in one.job(2)["reason"]
    cancel(one, blocker)
    after = one.submit("true")
    one.until_final(after)
    assert [attempt for attempt in one.job(2)["attempts"] if attempt["gpus"]] == []
    assert one.until_final(2)[0]["reason"] == "its terminal was gone"


def test_what_a_stopped_client_was_granted_before_a_restart_it_can_not_start(
    one: StokerHome,
) -> None:
    diary = Diary(one)
    client = stopped_when_its_turn_comes(one, diary)
    one.until_state(2, "running")
    one.kill_daemon()
    one.start()
    one.until_state(2, "waiting")
    gate = one.work / "gate"
    other = one.submit(*diary.command("other", f"until [ -e {gate} ]; do sleep 0.02; done"))
    one.until_state(other, "running")
    go_on(client)
    eventually(lambda: one.job(2)["reason"].startswith("needs 1 GPU"), "its client is back")
    assert not diary.has("attached", "began")
    gate.touch()
    assert client.wait(60) == 0
    client.communicate()
    assert [line.split()[:2] for line in lines_of(diary.path)] == [
        ["other", "began"],
        ["other", "ended"],
        ["attached", "began"],
        ["attached", "ended"],
    ]
    assert one.until_final(2)[0]["attempt"] == 2


def test_a_client_that_is_killed_as_it_starts_leaves_nothing_unknown(one: StokerHome) -> None:
    diary = Diary(one)
    for number in range(1, ROUNDS + 1):
        client = run(one, "--", *diary.command(f"job{number}", "sleep 0.05"))
        until_running(one, number)
        client.kill()
        client.communicate()
        ended = one.until_final(number)[0]
        began, over = (diary.has(f"job{number}", what) for what in ("began", "ended"))
        assert over or not began, "it was still running when it was said to be over"
        # Without its client nothing tells how it ended, but what never began is known.
        assert ended["state"] == ("lost" if began else "cancelled") or not began, ended
        pid = ended["pid"]
        assert pid is None or not is_running(pid)


def test_a_job_whose_client_is_gone_before_it_came_is_called_off(one: StokerHome) -> None:
    [job_id] = one.submit_all([{"argv": ["true"]}], attached=True)
    assert one.until_final(job_id)[0]["reason"] == "its terminal was gone"


def test_a_job_of_a_terminal_is_not_retried_and_that_is_said(one: StokerHome) -> None:
    assert run(one, "--", "false").wait(60) == 1
    other = one.submit("false")
    one.until_final(1, other)
    with pytest.raises(Failed, match="job 1 ran in a terminal"):
        one.call("retry", select={"ids": ["1"]})
    answer = one.call("retry", select={"ids": ["1", str(other)]})
    assert answer["ids"] == [other] and answer["left_out"] == {"job 1 ran in a terminal": [1]}
    assert one.job(1)["attempt"] == 1, "it was not queued"


def test_a_client_of_an_older_version_is_refused(one: StokerHome) -> None:
    [job_id] = one.submit_all([{"argv": ["true"]}], attached=True)
    with pytest.raises(Failed, match="older than the daemon"):
        one.call("attach", job_id=job_id)
