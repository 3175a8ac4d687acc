"""`stoker run` on a real terminal with a real daemon."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from stoker_home import StokerHome, is_running, pid_in
from unit.cli_run import Terminal
from waiting import eventually


@pytest.fixture
def stoker(lent: StokerHome) -> StokerHome:
    """It need not be a new one."""
    return lent


def on_terminal(stoker: StokerHome, *words: str, **env: str) -> Terminal:
    """A command line in a terminal of its own, on this home."""
    return Terminal(stoker.root, *words, **(stoker.env | env))


def test_the_job_has_the_terminal_and_its_input(stoker: StokerHome) -> None:
    script = (
        "test -t 0 && test -t 1 && test -t 2 && echo a terminal: $(tty); "
        "read line; echo got [$line]; exit 17"
    )
    with on_terminal(stoker, "run", "--gpus", "2", "--", "sh", "-c", script) as terminal:
        terminal.until(b"a terminal: /dev/pts/")
        terminal.type(b"hello\n")
        assert terminal.wait() == 17
        assert b"got [hello]" in terminal.screen
    job = stoker.until_final(stoker.first_id)[0]
    assert (job["state"], job["exit_code"], job["gpus"]) == ("failed", 17, ["0", "1"])


def test_colours_come_through(stoker: StokerHome) -> None:
    script = "printf '\\033[31mred\\033[0m $TERM\\n'; tput colors >/dev/null 2>&1; exit 0"
    with on_terminal(stoker, "run", "--", "sh", "-c", script) as terminal:
        assert terminal.wait() == 0
        assert b"\x1b[31mred\x1b[0m" in terminal.screen


def test_input_from_a_pipe_reaches_the_job_and_its_output_is_all_there_is(
    stoker: StokerHome,
) -> None:
    ran = stoker.cli("run", "--", "sh", "-c", "cat; exit 3", stdin=b"one\ntwo\n")
    assert (ran.code, ran.out, ran.err) == (3, "one\ntwo\n", "")


def test_the_environment_names_the_gpus(stoker: StokerHome) -> None:
    ran = stoker.cli("run", "--on", "3", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert ran.out == "3\n"


STUBBORN = """
import os, signal, sys, time
def told(name):
    return lambda *_: os.write(1, f"got {name}\\n".encode())
signal.signal(signal.SIGINT, told("INT"))
signal.signal(signal.SIGTERM, told("TERM"))
os.write(1, b"ready\\n")
while True:
    time.sleep(600)
"""


def test_ctrl_c_interrupts_then_terminates_then_kills(stoker: StokerHome) -> None:
    import sys

    with on_terminal(stoker, "run", "--", sys.executable, "-c", STUBBORN) as terminal:
        terminal.until(b"ready")
        terminal.type(b"\x03")
        terminal.until(b"got INT")
        terminal.type(b"\x03")
        terminal.until(b"got TERM")
        terminal.type(b"\x03")
        assert terminal.wait() == 128 + signal.SIGKILL
    job = stoker.until_final(stoker.first_id)[0]
    assert job["signal"] == signal.SIGKILL
    assert {gpu["state"] for gpu in stoker.call("gpus")["gpus"]} == {"free"}


def test_an_interrupted_job_ends_as_it_likes(stoker: StokerHome) -> None:
    script = "trap 'echo bye; exit 5' INT; echo ready; while :; do sleep 0.02; done"
    with on_terminal(stoker, "run", "--", "sh", "-c", script) as terminal:
        terminal.until(b"ready")
        terminal.type(b"\x03")
        assert terminal.wait() == 5
        assert b"bye" in terminal.screen
    assert stoker.until_final(stoker.first_id)[0]["exit_code"] == 5


def test_it_waits_its_turn_and_says_why(stoker: StokerHome) -> None:
    blocker = stoker.submit("sleep", "600", gpus=4)
    with on_terminal(stoker, "run", "--", "echo", "my turn") as terminal:
        terminal.until(b"needs 1 GPU, 0 of 4 free")
        stoker.call("cancel", select={"ids": [str(blocker)]})
        assert terminal.wait() == 0
        assert b"my turn" in terminal.screen


def test_ctrl_c_while_it_waits_takes_the_job_back(stoker: StokerHome) -> None:
    stoker.submit("sleep", "600", gpus=4)
    with on_terminal(stoker, "run", "--", "echo", "never") as terminal:
        terminal.until(b"waits")
        terminal.type(b"\x03")
        assert terminal.wait() == 130
    assert stoker.until_final(stoker.nth(2))[0]["state"] == "cancelled"


def test_cancel_from_elsewhere_stops_it(stoker: StokerHome) -> None:
    with on_terminal(stoker, "run", "--", "sh", "-c", "echo ready; exec sleep 600") as terminal:
        terminal.until(b"ready")
        stoker.until_state(stoker.first_id, "running")
        stoker.stoker("cancel", str(stoker.first_id))
        assert terminal.wait() == 143
    assert stoker.until_final(stoker.first_id)[0]["state"] == "cancelled"


def test_when_the_terminal_dies_the_gpu_is_free_once_the_process_has_ended(
    stoker: StokerHome,
) -> None:
    pid_file, go = stoker.work / "pid", stoker.work / "go"
    script = f"trap '' HUP; echo $$ > {pid_file}; until [ -e {go} ]; do sleep 0.02; done"
    with on_terminal(stoker, "run", "--", "sh", "-c", script) as terminal:
        pid = pid_in(pid_file)
        stoker.until_state(stoker.first_id, "running")
        os.kill(terminal.pid, signal.SIGKILL)
        assert terminal.wait() == -signal.SIGKILL
        # The client is gone, its process is not: neither is its GPU free.
        assert is_running(pid)
        assert stoker.call("gpus")["gpus"][0]["state"] == "busy"
        go.touch()
        stoker.until_final(stoker.first_id)
    assert stoker.call("gpus")["gpus"][0]["state"] == "free"
    assert stoker.job(stoker.first_id)["state"] in ("lost", "succeeded")


def test_a_hang_up_ends_the_job(stoker: StokerHome) -> None:
    pid_file = stoker.work / "pid"
    script = f"echo $$ > {pid_file}; exec sleep 600"
    with on_terminal(stoker, "run", "--", "sh", "-c", script) as terminal:
        pid = pid_in(pid_file)
        stoker.until_pid(stoker.first_id)
        terminal.hang_up()
        eventually(lambda: not is_running(pid), "the job was hung up")
        terminal.wait()  # It puts the job's end on record before it goes.
    ended = stoker.until_final(stoker.first_id)[0]
    assert ended["signal"] == signal.SIGHUP


def test_a_time_limit_holds_in_a_terminal_too(stoker: StokerHome) -> None:
    ran = stoker.cli("run", "--time-limit", "300ms", "--", "sleep", "600")
    assert ran.code == 143
    assert stoker.until_final(stoker.first_id)[0]["reason"] == "time limit"


def test_retries_run_again_in_the_same_terminal(stoker: StokerHome) -> None:
    ran = stoker.cli("run", "--retries", "1", "--", "sh", "-c", "echo $STOKER_ATTEMPT; exit 4")
    assert ran.code == 4 and ran.out.split() == ["1", "2"]


def test_a_command_that_can_not_be_run_is_127(stoker: StokerHome) -> None:
    script = stoker.work / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    ran = stoker.cli("run", "--", str(script), "x")
    assert ran.code == 127 and ran.err.count("\n") == 1
    assert stoker.until_final(stoker.first_id)[0]["state"] == "failed"


@pytest.mark.parametrize("no_color", [None, "1"])
def test_colours_are_for_terminals_and_no_color_is_respected(
    stoker: StokerHome, no_color: str | None
) -> None:
    stoker.until_final(stoker.submit("false"))
    env = {} if no_color is None else {"NO_COLOR": no_color}
    for words in (["ls"], ["status"], ["show", "last"], ["gpus"]):
        with on_terminal(stoker, *words, **env) as terminal:
            assert terminal.wait() == 0
            assert (b"\x1b[" in terminal.screen) == (no_color is None), words
        piped = subprocess.run(stoker.command(*words), env=stoker.env, capture_output=True)
        assert b"\x1b" not in piped.stdout


def test_what_a_job_leaves_in_its_terminal_is_ended_before_its_gpus_are_free(
    stoker: StokerHome,
) -> None:
    left = stoker.work / "left"
    script = f"sleep 600 & echo $! > {left}; exit 0"
    with on_terminal(stoker, "run", "--gpus", "4", "--", "sh", "-c", script) as terminal:
        assert terminal.wait() == 0
        pid = pid_in(left)
        # What has ended may be a zombie until the first process of the machine fetches it.
        lives = f"grep -qs '^State:.[^ZX]' /proc/{pid}/status"
        after = stoker.add("--gpus", "4", "--", "sh", "-c", f"{lives} && exit 9; exit 0")
        assert stoker.until_final(after)[0]["state"] == "succeeded", "nothing was left by then"
        assert not is_running(pid)


def test_what_took_a_session_of_its_own_stays_when_its_job_ends_in_a_terminal(
    stoker: StokerHome,
) -> None:
    left = stoker.work / "left"
    script = f"setsid sh -c 'echo $$ > {left}; exec sleep 600' & until test -s {left}; do :; done"
    with on_terminal(stoker, "run", "--", "sh", "-c", script) as terminal:
        assert terminal.wait() == 0
        stoker.until_final(stoker.first_id)
        pid = pid_in(left)
        assert is_running(pid)
        os.kill(pid, signal.SIGKILL)
