"""A feed that was interrupted, or killed, and goes on: nothing is lost, nothing runs twice."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from feed_process import UNTIL, FeedProcess, until_lines
from stoker_home import StokerHome, kill_and_wait
from waiting import eventually


def write_commands(stoker: StokerHome, *lines: str, name: str = "commands.txt") -> Path:
    path = stoker.work / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def ran(stoker: StokerHome) -> list[str]:
    path = stoker.work / "ran.txt"
    return sorted(path.read_text().split()) if path.exists() else []


def test_what_has_succeeded_is_not_run_again_and_what_failed_is(reused: StokerHome) -> None:
    write_commands(reused, "echo a >> ran.txt", "echo b >> ran.txt; [ -e mended ]")
    assert reused.cli("feed", "commands.txt").code == 1
    assert ran(reused) == ["a", "b"]
    (reused.work / "mended").touch()
    done = reused.cli("feed", "--resume", "commands.txt")
    assert done.code == 0, done
    assert "1 succeeded, 1 succeeded before, 0 failed" in done.err
    assert ran(reused) == ["a", "b", "b"]
    assert reused.cli("feed", "--resume", "commands.txt").code == 0
    assert ran(reused) == ["a", "b", "b"]


def test_without_resume_a_feed_begins_anew_and_resume_goes_on_with_the_last_one(
    reused: StokerHome,
) -> None:
    write_commands(reused, "echo a >> ran.txt", "echo b >> ran.txt; exit 1")
    assert reused.cli("feed", "commands.txt").code == 1
    write_commands(reused, "echo a >> ran.txt", "echo b >> ran.txt")
    reused.call("pause")
    with FeedProcess(reused, "commands.txt") as feed:
        eventually(lambda: len(reused.jobs()) == 4, "the second run is queued")
        feed.send(signal.SIGINT)
        assert feed.wait() == 130
    reused.call("resume")
    # The first line has succeeded in the first run, but not in the last, which is gone on with.
    assert reused.cli("feed", "--resume", "commands.txt").code == 0
    assert ran(reused) == ["a", "a", "b", "b"]


def test_a_file_on_stdin_is_known_by_its_path(reused: StokerHome) -> None:
    path = write_commands(reused, "echo a >> ran.txt")
    for words in ((), ("--resume",)):
        with path.open("rb") as stdin, FeedProcess(reused, *words, stdin=stdin) as feed:
            assert feed.wait() == 0
    assert reused.cli("feed", "--resume", "commands.txt").code == 0
    assert ran(reused) == ["a"]


def test_a_pipe_is_known_by_the_group_that_it_is_given(reused: StokerHome) -> None:
    text = b"echo a >> ran.txt\necho b >> ran.txt\n"
    assert reused.cli("feed", "--group", "g", stdin=text).code == 0
    assert reused.cli("feed", "--group", "g", "--resume", stdin=text).code == 0
    assert ran(reused) == ["a", "b"]
    assert reused.cli("feed", "--group", "g", stdin=text).code == 0
    assert ran(reused) == ["a", "a", "b", "b"]


def test_a_first_feed_may_say_resume(reused: StokerHome) -> None:
    write_commands(reused, "echo a >> ran.txt")
    done = reused.cli("feed", "--resume", "commands.txt")
    assert done.code == 0
    assert "starting a new one" in done.err
    assert ran(reused) == ["a"]


def test_the_same_line_twice_is_two_lines_and_lines_may_move(reused: StokerHome) -> None:
    write_commands(reused, *["echo a >> ran.txt"] * 2)
    assert reused.cli("feed", "commands.txt").code == 0
    write_commands(reused, "echo new >> ran.txt", *["echo a >> ran.txt"] * 3)
    assert reused.cli("feed", "--resume", "commands.txt").code == 0
    assert ran(reused) == ["a", "a", "a", "new"]


def test_what_an_interrupt_called_off_runs_when_the_feed_is_resumed(reused: StokerHome) -> None:
    lines = [f"{UNTIL.format('go')}; echo {number} >> ran.txt" for number in range(10)]
    write_commands(reused, *lines)
    with FeedProcess(reused, "--on", "0", "commands.txt") as feed:
        feed.until_said(f"job {reused.first_id} started")
        feed.send(signal.SIGINT)
        feed.until_said("may finish")
        (reused.work / "go").touch()
        assert feed.wait() == 130
    done = reused.cli("feed", "--resume", "--on", "0", "commands.txt")
    assert done.code == 0, done
    assert ran(reused) == [str(number) for number in range(10)]


def test_jobs_that_run_or_wait_still_are_waited_for_and_not_queued_again(
    reused: StokerHome,
) -> None:
    lines = [f"{UNTIL.format('go')}; echo {number} >> ran.txt" for number in range(6)]
    write_commands(reused, *lines)
    with FeedProcess(reused, "--on", "0,1", "commands.txt") as feed:
        feed.until_said(f"job {reused.first_id + 1} started")
        kill_and_wait(feed.process.pid)
    with FeedProcess(reused, "--on", "0,1", "--resume", "commands.txt") as feed:
        feed.until_said(f"job {reused.first_id + 1} started")
        assert len(reused.jobs()) == 6
        (reused.work / "go").touch()
        assert feed.wait() == 0
    assert ran(reused) == [str(number) for number in range(6)]
    assert "6 succeeded" in feed.err


def test_a_job_that_a_killed_feed_left_held_is_released(reused: StokerHome) -> None:
    reused.call("pause")
    write_commands(reused, "echo a >> ran.txt")
    with FeedProcess(reused, "commands.txt") as feed:
        eventually(lambda: len(reused.jobs()) == 1, "it is queued")
        kill_and_wait(feed.process.pid)
    reused.call("hold", select={"ids": [str(reused.first_id)]})
    reused.call("resume")
    done = reused.cli("feed", "--resume", "commands.txt")
    assert done.code == 0, done
    assert ran(reused) == ["a"]


def test_a_job_that_is_being_stopped_is_run_again_once_it_has_ended(reused: StokerHome) -> None:
    stubborn = "trap '' TERM; touch begun; while [ ! -e go ]; do sleep 0.02; done; exit 1"
    write_commands(reused, f"if [ ! -e go ]; then {stubborn}; fi; echo a >> ran.txt")
    with FeedProcess(reused, "--grace", "1h", "commands.txt") as feed:
        eventually((reused.work / "begun").exists, "it runs")
        feed.until_said(f"job {reused.first_id} started")
        for said in ("may finish", "stopping running commands", ""):
            feed.send(signal.SIGINT)
            feed.until_said(said)
        assert feed.wait() == 130
    reused.until_state(reused.first_id, "stopping")
    with FeedProcess(reused, "--resume", "commands.txt") as feed:
        feed.until_said(f"job {reused.first_id} started")
        (reused.work / "go").touch()
        assert feed.wait() == 0, feed.err
    assert ran(reused) == ["a"]


def test_two_feeds_of_one_group_can_t_resume_at_once(reused: StokerHome) -> None:
    write_commands(reused, UNTIL.format("go"))
    with FeedProcess(reused, "commands.txt") as feed:
        feed.until_said(f"job {reused.first_id} started")
        done = reused.cli("feed", "--resume", "commands.txt")
        assert done.code == 1
        assert "is already running" in done.err
        (reused.work / "go").touch()
        assert feed.wait() == 0
    assert len(reused.jobs()) == 1


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_moments_and_resumed_every_line_runs_exactly_once(
    reused: StokerHome, seed: int
) -> None:
    chance = random.Random(seed)
    count = 300
    lines = [f"echo {number} >> ran.txt" for number in range(count)]
    write_commands(reused, *lines)
    words = ["--on", "0,1,2", "commands.txt"]
    for _ in range(6):
        with FeedProcess(reused, *words) as feed:
            # A moment that is not tied to anything that the feed says: some CPU time of its own.
            spent = chance.uniform(0.02, 0.12)
            eventually(lambda s=spent, f=feed: f.process.poll() is not None or _cpu_s(f) >= s)  # type: ignore[misc]
            kill_and_wait(feed.process.pid)
        words = ["--on", "0,1,2", "--resume", "commands.txt"]
    with FeedProcess(reused, *words) as feed:
        assert feed.wait() == 0, feed.err
    assert sorted(map(int, ran(reused))) == list(range(count))


def _cpu_s(feed: FeedProcess) -> float:
    try:
        text = Path(f"/proc/{feed.process.pid}/stat").read_text()
    except OSError:
        return 1e9
    user, system = text[text.rindex(")") + 2 :].split()[11:13]
    return (int(user) + int(system)) / 100


def test_feed_and_daemon_killed_together_again_and_again_lose_nothing(reused: StokerHome) -> None:
    count = 200
    write_commands(reused, *[f"echo {number} >> ran.txt" for number in range(count)])
    words = ["--on", "0,1", "commands.txt"]
    for lines in (1, 50, 100):
        with FeedProcess(reused, *words) as feed:
            until_lines(reused.work / "ran.txt", lines)
            # So many may have run before this feed has started a daemon.
            eventually(reused.is_reachable, "a daemon answers")
            reused.kill_daemon()
            kill_and_wait(feed.process.pid)
        words = ["--on", "0,1", "--resume", "commands.txt"]
    with FeedProcess(reused, *words) as feed:
        assert feed.wait() == 0, feed.err
    assert sorted(map(int, ran(reused))) == list(range(count))
