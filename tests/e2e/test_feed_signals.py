"""How a feed ends before its input does: signals, a closed terminal, a daemon that goes away."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from feed_process import UNTIL, FeedProcess, until_lines
from stoker_home import StokerHome
from unit.cli_run import Terminal
from waiting import eventually

HELD_UP = f"echo $STOKER_JOB_ID >> begun.txt; {UNTIL.format('go')}; echo done >> ran.txt"


def until_begun(stoker: StokerHome, feed: FeedProcess, count: int) -> None:
    """Wait until so many commands run, and the feed has heard of it: that is a moment later."""
    until_lines(stoker.work / "begun.txt", count)
    for number in range(1, count + 1):
        feed.until_said(f"job {stoker.nth(number)} started")


def counted(stoker: StokerHome) -> dict[str, int]:
    """How many jobs are in each state."""
    found: dict[str, int] = {}
    for job in stoker.jobs().values():
        found[job["state"]] = found.get(job["state"], 0) + 1
    return found


def write_commands(stoker: StokerHome, *lines: str) -> None:
    (stoker.work / "commands.txt").write_text("".join(f"{line}\n" for line in lines))


# ---------------------------------------------------------------------- Ctrl-C and SIGTERM


def test_the_first_interrupt_takes_no_more_and_lets_the_running_ones_finish(
    reused: StokerHome,
) -> None:
    write_commands(reused, *[HELD_UP] * 20)
    with FeedProcess(reused, "--on", "0,1", "commands.txt") as feed:
        until_begun(reused, feed, 2)
        feed.send(signal.SIGINT)
        feed.until_said("reading no more commands; 2 running commands may finish")
        eventually(lambda: counted(reused) == {"running": 2, "cancelled": 18}, "the rest is off")
        (reused.work / "go").touch()
        assert feed.wait() == 130
    assert "2 succeeded, 0 failed, 18 not run" in feed.err.splitlines()[-1]
    assert counted(reused) == {"succeeded": 2, "cancelled": 18}


def test_sigterm_means_the_same_and_shows_in_the_exit_code(reused: StokerHome) -> None:
    with FeedProcess(reused, "--on", "0") as feed:
        feed.write(HELD_UP, HELD_UP)
        until_begun(reused, feed, 1)
        eventually(lambda: len(reused.jobs()) == 2, "both are queued")
        feed.send(signal.SIGTERM)
        feed.until_said("1 running command may finish")
        eventually(lambda: counted(reused) == {"running": 1, "cancelled": 1}, "the rest is off")
        (reused.work / "go").touch()
        assert feed.wait() == 143
    assert counted(reused) == {"succeeded": 1, "cancelled": 1}


def test_the_second_interrupt_stops_what_runs(reused: StokerHome) -> None:
    write_commands(reused, *["echo $STOKER_JOB_ID >> begun.txt; sleep 999"] * 5)
    with FeedProcess(reused, "--on", "0,1", "commands.txt") as feed:
        until_begun(reused, feed, 2)
        feed.send(signal.SIGINT)
        feed.until_said("may finish")
        feed.send(signal.SIGINT)
        assert feed.wait() == 130
    assert "2 stopped, 3 not run" in feed.err.splitlines()[-1]
    assert counted(reused) == {"cancelled": 5}


def test_the_third_interrupt_waits_for_nothing(reused: StokerHome) -> None:
    write_commands(reused, "trap '' TERM; echo 1 >> begun.txt; while :; do sleep 0.1; done")
    with FeedProcess(reused, "--grace", "1h", "--on", "0", "commands.txt") as feed:
        until_begun(reused, feed, 1)
        for said in ("may finish", "stopping running commands", ""):
            feed.send(signal.SIGINT)
            feed.until_said(said)
        assert feed.wait() == 130
    assert "1 still running" in feed.err.splitlines()[-1]


def test_interrupts_in_quick_succession_stop_everything_too(reused: StokerHome) -> None:
    write_commands(reused, *["echo $STOKER_JOB_ID >> begun.txt; sleep 999"] * 50)
    with FeedProcess(reused, "--on", "0,1", "commands.txt") as feed:
        until_lines(reused.work / "begun.txt", 2)
        while feed.process.poll() is None:
            feed.send(signal.SIGINT)
        assert feed.wait() == 130
    eventually(lambda: counted(reused) == {"cancelled": 50}, "all are stopped")


def test_an_interrupt_before_anything_runs_ends_the_feed_at_once(reused: StokerHome) -> None:
    reused.call("pause")
    write_commands(reused, *["true"] * 100)
    with FeedProcess(reused, "commands.txt") as feed:
        eventually(lambda: counted(reused) == {"waiting": 100}, "all are queued")
        feed.send(signal.SIGINT)
        assert feed.wait() == 130
    assert counted(reused) == {"cancelled": 100}


def test_an_interrupt_leaves_other_jobs_of_the_same_group_alone(reused: StokerHome) -> None:
    reused.call("pause")
    other = reused.submit("true", group="shared")
    write_commands(reused, "true", "true")
    with FeedProcess(reused, "--group", "shared", "commands.txt") as feed:
        eventually(lambda: counted(reused) == {"waiting": 3}, "all are queued")
        feed.send(signal.SIGINT)
        assert feed.wait() == 130
    assert reused.job(other)["state"] == "waiting"


def test_an_interrupt_holds_back_what_waits_to_be_tried_again(reused: StokerHome) -> None:
    write_commands(reused, "echo x >> begun.txt; exit 1")
    with FeedProcess(reused, "--retries", "100", "commands.txt") as feed:
        feed.until_said("it will be tried again")
        feed.send(signal.SIGINT)
        assert feed.wait() == 130
    assert counted(reused) == {"cancelled": 1}


def test_sigusr1_stops_reading_and_finishes_what_was_read(reused: StokerHome) -> None:
    with FeedProcess(reused, "--on", "0") as feed:
        feed.write(*[HELD_UP] * 3)
        until_lines(reused.work / "begun.txt", 1)
        eventually(lambda: len(reused.jobs()) == 3, "all are queued")
        feed.send(signal.SIGUSR1)
        feed.until_said("reading no more commands; queued ones will run")
        feed.write("echo too late >> ran.txt")
        (reused.work / "go").touch()
        assert feed.wait() == 0
    assert (reused.work / "ran.txt").read_text() == "done\n" * 3


# ---------------------------------------------------------------------- the terminal


def on_terminal(stoker: StokerHome, *words: str) -> Terminal:
    return Terminal(Path(stoker.home.root), *words, SHELL="/bin/sh")


def test_a_terminal_shows_one_line_that_is_redrawn_and_what_failed_above_it(
    reused: StokerHome,
) -> None:
    work = reused.work
    write_commands(reused, "exit 3", f"cd {work}; {UNTIL.format('go')}", "true")
    with on_terminal(reused, "feed", "--on", "0", str(work / "commands.txt")) as terminal:
        terminal.until(b"0 done, 1 failed, 1 running, 1 waiting")
        terminal.until(f"job {reused.first_id} failed".encode())
        (work / "go").touch()
        assert terminal.wait() == 1
    assert b"\r\x1b[K" in terminal.screen
    assert b" left" in terminal.screen
    assert b"started on GPU" not in terminal.screen
    assert b"2 succeeded, 1 failed" in terminal.screen.splitlines()[-1]


def test_ctrl_c_in_a_terminal_reaches_no_job(reused: StokerHome) -> None:
    work = reused.work
    write_commands(reused, f"cd {work}; {HELD_UP}", "true")
    with on_terminal(reused, "feed", "--on", "0", str(work / "commands.txt")) as terminal:
        until_lines(work / "begun.txt", 1)
        terminal.until(b"1 running, 1 waiting")
        terminal.type(b"\x03")
        terminal.until(b"1 running command may finish")
        (work / "go").touch()
        assert terminal.wait() == 130
    assert (work / "ran.txt").read_text() == "done\n"
    assert counted(reused) == {"succeeded": 1, "cancelled": 1}


def test_commands_can_be_typed_and_ctrl_d_ends_them(reused: StokerHome) -> None:
    with on_terminal(reused, "feed", "--on", "0") as terminal:
        terminal.until(b"Ctrl-D")
        terminal.type(b"echo typed\n")
        terminal.until(f"job {reused.first_id} succeeded".encode())
        terminal.type(b"\x04")
        assert terminal.wait() == 0
    assert reused.log_of(reused.first_id) == "typed\n"


def test_when_the_terminal_is_closed_what_was_read_goes_on(reused: StokerHome) -> None:
    work = reused.work
    write_commands(reused, f"cd {work}; {HELD_UP}", *[f"echo on >> {work}/ran.txt"] * 30)
    with on_terminal(reused, "feed", "--on", "0", str(work / "commands.txt")) as terminal:
        until_lines(work / "begun.txt", 1)
        terminal.hang_up()
        assert terminal.wait() == 129
    (work / "go").touch()
    eventually(lambda: counted(reused) == {"succeeded": 31}, "all have run")


# ---------------------------------------------------------------------- the daemon


def test_a_feed_survives_the_death_of_the_daemon_again_and_again(reused: StokerHome) -> None:
    count = 120
    # A feed that has nothing left to do would not bring the daemon back.
    wait = "until [ -e go{} ]; do sleep 0.02; done"
    commands = [f"{wait.format(number // 30)}; echo {number} >> ran.txt" for number in range(count)]
    write_commands(reused, *commands)
    (reused.work / "go0").touch()
    with FeedProcess(reused, "--on", "0,1", "commands.txt") as feed:
        for kills, lines in enumerate((1, 30, 60, 90), 1):
            until_lines(reused.work / "ran.txt", lines)
            # So many may have run before the feed has brought back the one that was killed last.
            eventually(reused.is_reachable, "there is a daemon again")
            reused.kill_daemon()
            (reused.work / f"go{kills}").touch()
        assert feed.wait() == 0, feed.err
    ran = (reused.work / "ran.txt").read_text().split()
    assert sorted(map(int, ran)) == list(range(count))
    assert f"{count} succeeded, 0 failed" in feed.err.splitlines()[-1]


def test_lines_given_while_the_daemon_is_dead_are_queued_once_it_is_back(
    reused: StokerHome,
) -> None:
    with FeedProcess(reused, "--on", "0") as feed:
        feed.write("echo 1 >> ran.txt")
        feed.until_said(f"job {reused.first_id} succeeded")
        pid = reused.daemon_pid()
        os.kill(pid, signal.SIGKILL)
        feed.write("echo 2 >> ran.txt")
        feed.end_of_input()
        assert feed.wait() == 0, feed.err
    assert (reused.work / "ran.txt").read_text() == "1\n2\n"


def test_a_daemon_that_was_stopped_on_purpose_is_waited_for(reused: StokerHome) -> None:
    write_commands(reused, HELD_UP)
    with FeedProcess(reused, "--on", "0", "commands.txt") as feed:
        until_begun(reused, feed, 1)
        reused.stoker("daemon", "stop")
        feed.until_said("the daemon was stopped; waiting for it")
        (reused.work / "go").touch()
        until_lines(reused.work / "ran.txt", 1)
        assert feed.process.poll() is None
        reused.start()
        assert feed.wait() == 0, feed.err
    assert "1 succeeded" in feed.err


def test_an_interrupt_is_heard_while_a_stopped_daemon_is_waited_for(reused: StokerHome) -> None:
    write_commands(reused, HELD_UP)
    with FeedProcess(reused, "--on", "0", "commands.txt") as feed:
        until_begun(reused, feed, 1)
        reused.stoker("daemon", "stop")
        feed.until_said("the daemon was stopped; waiting for it")
        for said in ("may finish", "stopping running commands", ""):
            feed.send(signal.SIGINT)
            feed.until_said(said)
        assert feed.wait() == 130
    assert "still running" in feed.err
