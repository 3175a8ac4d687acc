"""`stoker run` on a real terminal with a real daemon."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys

import pytest

from stoker_home import StokerHome, is_running, pid_in
from unit.cli_run import Terminal
from waiting import eventually


def on_terminal(stoker: StokerHome, *words: str, **env: str) -> Terminal:
    """A command line in a terminal of its own, on this home."""
    return Terminal(stoker.root, *words, **(stoker.env | env))


def test_the_job_has_the_terminal_and_its_input(reused: StokerHome) -> None:
    script = (
        "test -t 0 && test -t 1 && test -t 2 && echo a terminal: $(tty); "
        "read line; echo got [$line]; exit 17"
    )
    with on_terminal(reused, "run", "--gpus", "2", "--", "sh", "-c", script) as terminal:
        terminal.until(b"a terminal: /dev/pts/")
        terminal.type(b"hello\n")
        assert terminal.wait() == 17
        assert b"got [hello]" in terminal.screen
    job = reused.until_final(reused.first_id)[0]
    assert (job["state"], job["exit_code"], job["gpus"]) == ("failed", 17, ["0", "1"])


def test_colours_come_through(reused: StokerHome) -> None:
    script = "printf '\\033[31mred\\033[0m $TERM\\n'; tput colors >/dev/null 2>&1; exit 0"
    with on_terminal(reused, "run", "--", "sh", "-c", script) as terminal:
        assert terminal.wait() == 0
        assert b"\x1b[31mred\x1b[0m" in terminal.screen


def test_input_from_a_pipe_reaches_the_job_and_its_output_is_all_there_is(
    reused: StokerHome,
) -> None:
    ran = reused.cli("run", "--", "sh", "-c", "cat; exit 3", stdin=b"one\ntwo\n")
    assert (ran.code, ran.out, ran.err) == (3, "one\ntwo\n", "")


def test_the_environment_names_the_gpus(reused: StokerHome) -> None:
    ran = reused.cli("run", "--on", "3", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert ran.out == "3\n"


def test_what_is_known_of_new_jobs_is_said_on_a_terminal(stoker: StokerHome) -> None:
    words = ("--on", "0", "--kind", "alike", "--", "sleep")
    stoker.until_final(stoker.add(*words, "0.1"))
    blocker = stoker.add("--on", "0", "--", "sleep", "600")
    with on_terminal(stoker, "add", *words, "0.1") as terminal:
        assert terminal.wait() == 0
    said = terminal.screen.decode().splitlines()[-1]
    assert said.startswith(f"job {blocker + 1}: needs ") and "(learned from 1 run)" in said
    with on_terminal(stoker, "sweep", "s=1,2", *words, "{s}") as terminal:
        assert terminal.wait() == 0
    said = terminal.screen.decode().splitlines()[-1]
    assert said.startswith(f"job {blocker + 2}, the first of 2: 1 job ahead, runs about ")
    (stoker.work / "rows.csv").write_text("command\ntrue\ntrue\n")
    rows = str(stoker.work / "rows.csv")
    with on_terminal(stoker, "batch", rows, "--no-wait", "--on", "0") as terminal:
        assert terminal.wait() == 0
    said = terminal.screen.decode().splitlines()[-1]
    assert said.startswith(f"job {blocker + 4}, the first of 2: 3 jobs ahead")
    stoker.stoker("cancel", "--all")


def test_the_jobs_ahead_of_a_new_one_are_those_before_its_place(reused: StokerHome) -> None:
    reused.stoker("pause")
    first = reused.add("--", "true")
    reused.add("--at", "+2h", "--", "true")
    reused.add("--after", str(first), "--", "true")
    reused.add("--hold", "--", "true")
    with on_terminal(reused, "add", "--", "true") as terminal:
        assert terminal.wait() == 0
    said = terminal.screen.decode().splitlines()[-1]
    assert said.startswith(f"job {first + 4}: 3 jobs ahead; the queue is paused"), said
    with on_terminal(reused, "ls", NO_COLOR="1") as terminal:
        assert terminal.wait() == 0
    rows = terminal.screen.decode().splitlines()
    place = next(row for row in rows if "PLACE" in row).index("PLACE")
    [row] = [row for row in rows if row.split()[:1] == [str(first + 4)]]
    assert row[place:].split()[0] == "4"
    assert "; 3 jobs come before it" in reused.stoker("why", str(first + 4))
    urgent = reused.add("--priority", "-1", "--", "true")
    last = [str(first + 2), str(first + 4)]
    for words in ("--all --limit 4", "--limit 6", f"{first + 2}-{urgent}", "--state waiting"):
        with on_terminal(reused, "ls", *words.split(), NO_COLOR="1") as terminal:
            assert terminal.wait() == 0
        rows = terminal.screen.decode().splitlines()
        place = rows[0].index("PLACE")
        found = {row.split()[0]: row[place:].split()[0] for row in rows if " waiting " in row}
        assert [found[one] for one in (str(urgent), *last)] == ["1", "4", "5"], words
    reused.stoker("cancel", "--all")
    reused.stoker("resume")


STUBBORN = """
import os, signal
told = {signal.SIGINT, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, told)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.write(1, b"ready\\n")
while True:
    os.write(1, f"got {signal.sigwait(told).name[3:]}\\n".encode())
"""


def test_ctrl_c_interrupts_then_terminates_then_kills(reused: StokerHome) -> None:
    with on_terminal(reused, "run", "--", sys.executable, "-c", STUBBORN) as terminal:
        terminal.until(b"ready")
        terminal.type(b"\x03")
        terminal.until(b"got INT")
        terminal.type(b"\x03")
        terminal.until(b"got TERM")
        terminal.type(b"\x03")
        assert terminal.wait() == 128 + signal.SIGKILL
    job = reused.until_final(reused.first_id)[0]
    assert job["signal"] == signal.SIGKILL
    assert {gpu["state"] for gpu in reused.call("gpus")["gpus"]} == {"free"}


# By a descriptor, and not by `input`: that misses what comes between its prompt and its read.
REPL = """
import os, select, signal
told, tell = os.pipe()
os.set_blocking(tell, False)
signal.set_wakeup_fd(tell)
signal.signal(signal.SIGINT, lambda *_: None)
os.write(1, b"> ")
while True:
    if told in select.select([0, told], [], [])[0]:
        os.read(told, 100)
        os.write(1, b"interrupted\\n> ")
        continue
    line = os.read(0, 1000)
    if not line:
        break
    os.write(1, f"{eval(line)}\\n> ".encode())
"""


BEHIND_BASH = ("bash", "-c", '"$@"; exit $?', "bash")
# It has no handler of its own, as bash has while it waits for a command.
BEHIND_A_SHELL_THAT_IGNORES_IT = ("sh", "-c", 'trap "" INT; "$@"; exit $?', "sh")


@pytest.mark.parametrize("wrapper", [(), BEHIND_BASH, BEHIND_A_SHELL_THAT_IGNORES_IT])
def test_ctrl_c_never_ends_a_program_that_handles_it_and_goes_on(
    reused: StokerHome, wrapper: tuple[str, ...]
) -> None:
    words = (*wrapper, sys.executable, "-c", REPL)
    with on_terminal(reused, "run", "--", *words) as terminal:
        for number in range(4):
            terminal.until(b"> ")
            terminal.screen = b""
            terminal.type(b"\x03")
            terminal.until(b"interrupted")
            if number == 2:
                terminal.until(f"`stoker cancel {reused.first_id}` ends it".encode())
            else:
                assert b"stoker cancel" not in terminal.screen
        terminal.type(b"6 * 7\n")
        terminal.until(b"42")
        terminal.type(b"\x04")
        assert terminal.wait() == 0
    assert reused.until_final(reused.first_id)[0]["state"] == "succeeded"


def test_an_interrupted_job_ends_as_it_likes(reused: StokerHome) -> None:
    script = "trap 'echo bye; exit 5' INT; echo ready; while :; do sleep 0.02; done"
    with on_terminal(reused, "run", "--", "sh", "-c", script) as terminal:
        terminal.until(b"ready")
        terminal.type(b"\x03")
        assert terminal.wait() == 5
        assert b"bye" in terminal.screen
    assert reused.until_final(reused.first_id)[0]["exit_code"] == 5


def test_it_waits_its_turn_and_says_why(reused: StokerHome) -> None:
    blocker = reused.submit("sleep", "600", gpus=4)
    with on_terminal(reused, "run", "--", "echo", "my turn") as terminal:
        terminal.until(b"needs 1 GPU, 0 of 4 free")
        reused.call("cancel", select={"ids": [str(blocker)]})
        assert terminal.wait() == 0
        assert b"my turn" in terminal.screen


def test_ctrl_c_while_it_waits_takes_the_job_back(reused: StokerHome) -> None:
    reused.submit("sleep", "600", gpus=4)
    with on_terminal(reused, "run", "--", "echo", "never") as terminal:
        terminal.until(b"waits")
        terminal.type(b"\x03")
        assert terminal.wait() == 130
    assert reused.until_final(reused.nth(2))[0]["state"] == "cancelled"


def test_cancel_from_elsewhere_stops_it(reused: StokerHome) -> None:
    with on_terminal(reused, "run", "--", "sh", "-c", "echo ready; exec sleep 600") as terminal:
        terminal.until(b"ready")
        reused.until_state(reused.first_id, "running")
        reused.stoker("cancel", str(reused.first_id))
        assert terminal.wait() == 143
    assert reused.until_final(reused.first_id)[0]["state"] == "cancelled"


def test_when_the_terminal_dies_the_gpu_is_free_once_the_process_has_ended(
    reused: StokerHome,
) -> None:
    pid_file, go = reused.work / "pid", reused.work / "go"
    script = f"trap '' HUP; echo $$ > {pid_file}; until [ -e {go} ]; do sleep 0.02; done"
    with on_terminal(reused, "run", "--", "sh", "-c", script) as terminal:
        pid = pid_in(pid_file)
        reused.until_state(reused.first_id, "running")
        os.kill(terminal.pid, signal.SIGKILL)
        assert terminal.wait() == -signal.SIGKILL
        # The client is gone, its process is not: neither is its GPU free.
        assert is_running(pid)
        assert reused.call("gpus")["gpus"][0]["state"] == "busy"
        go.touch()
        reused.until_final(reused.first_id)
    assert reused.call("gpus")["gpus"][0]["state"] == "free"
    assert reused.job(reused.first_id)["state"] in ("lost", "succeeded")


def test_a_hang_up_ends_the_job(reused: StokerHome) -> None:
    pid_file = reused.work / "pid"
    script = f"echo $$ > {pid_file}; exec sleep 600"
    with on_terminal(reused, "run", "--", "sh", "-c", script) as terminal:
        pid = pid_in(pid_file)
        reused.until_pid(reused.first_id)
        terminal.hang_up()
        eventually(lambda: not is_running(pid), "the job was hung up")
        terminal.wait()  # It puts the job's end on record before it goes.
    ended = reused.until_final(reused.first_id)[0]
    assert ended["signal"] == signal.SIGHUP


def test_a_time_limit_holds_in_a_terminal_too(reused: StokerHome) -> None:
    ran = reused.cli("run", "--time-limit", "300ms", "--", "sleep", "600")
    assert ran.code == 143
    assert reused.until_final(reused.first_id)[0]["reason"] == "time limit"
    assert ran.err == f"stoker: job {reused.first_id} was stopped: time limit\n"


def test_retries_run_again_in_the_same_terminal(reused: StokerHome) -> None:
    ran = reused.cli("run", "--retries", "1", "--", "sh", "-c", "echo $STOKER_ATTEMPT; exit 4")
    assert ran.code == 4 and ran.out.split() == ["1", "2"]


def test_a_command_that_can_not_be_run_is_127(reused: StokerHome) -> None:
    script = reused.work / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    ran = reused.cli("run", "--", str(script), "x")
    assert ran.code == 127 and ran.err.count("\n") == 1
    assert reused.until_final(reused.first_id)[0]["state"] == "failed"


@pytest.mark.parametrize("no_color", [None, "1"])
def test_colours_are_for_terminals_and_no_color_is_respected(
    reused: StokerHome, no_color: str | None
) -> None:
    reused.until_final(reused.submit("false"))
    env = {} if no_color is None else {"NO_COLOR": no_color}
    for words in (["ls"], ["status"], ["show", "last"], ["gpus"]):
        with on_terminal(reused, *words, **env) as terminal:
            assert terminal.wait() == 0
            assert (b"\x1b[" in terminal.screen) == (no_color is None), words
        piped = subprocess.run(reused.command(*words), env=reused.env, capture_output=True)
        assert b"\x1b" not in piped.stdout


def test_what_a_job_leaves_in_its_terminal_is_ended_before_its_gpus_are_free(
    reused: StokerHome,
) -> None:
    left = reused.work / "left"
    script = f"sleep 600 & echo $! > {left}; exit 0"
    with on_terminal(reused, "run", "--gpus", "4", "--", "sh", "-c", script) as terminal:
        assert terminal.wait() == 0
        pid = pid_in(left)
        # What has ended may be a zombie until the first process of the machine fetches it.
        lives = f"grep -qs '^State:.[^ZX]' /proc/{pid}/status"
        after = reused.add("--gpus", "4", "--", "sh", "-c", f"{lives} && exit 9; exit 0")
        assert reused.until_final(after)[0]["state"] == "succeeded", "nothing was left by then"
        assert not is_running(pid)


def test_what_took_a_session_of_its_own_stays_when_its_job_ends_in_a_terminal(
    reused: StokerHome,
) -> None:
    left = reused.work / "left"
    script = f"setsid sh -c 'echo $$ > {left}; exec sleep 600' & until test -s {left}; do :; done"
    with on_terminal(reused, "run", "--", "sh", "-c", script) as terminal:
        assert terminal.wait() == 0
        reused.until_final(reused.first_id)
        pid = pid_in(left)
        assert is_running(pid)
        os.kill(pid, signal.SIGKILL)


def test_a_shell_says_which_gpus_it_has_and_its_exit_code_is_ours(reused: StokerHome) -> None:
    with on_terminal(reused, "shell", "--on", "1,3", "--gpus", "2", SHELL="/bin/sh") as terminal:
        terminal.until(f"job {reused.first_id} is a shell on GPUs 1, 3; exit ends it".encode())
        terminal.type(b"echo sees [$CUDA_VISIBLE_DEVICES]\n")
        terminal.until(b"sees [1,3]")
        (job,) = reused.call("show", select={"ids": [str(reused.first_id)]})["jobs"]
        assert (job["state"], job["argv"], job["attached"]) == ("running", ["/bin/sh"], True)
        terminal.type(b"exit 9\n")
        assert terminal.wait() == 9
    assert reused.until_final(reused.first_id)[0]["exit_code"] == 9


def test_a_shell_reads_a_script_and_says_its_words_on_stderr(reused: StokerHome) -> None:
    script = b"echo [$STOKER_GPUS]; exit 4\n"
    ran = reused.cli("shell", "--gpus", "0", stdin=script, env={"SHELL": "/bin/sh"})
    assert (ran.code, ran.out) == (4, "[]\n")
    assert ran.err == f"stoker: job {reused.first_id} is a shell without GPUs; exit ends it\n"


@pytest.mark.parametrize("said", ["/no/such/fish", "/tmp", "/etc/passwd", "sh", ""])
def test_a_shell_that_is_no_program_is_replaced_by_that_of_the_account(
    reused: StokerHome, said: str
) -> None:
    listed = pwd.getpwuid(os.getuid()).pw_shell
    ran = reused.cli("shell", "--gpus", "0", stdin=b"echo $0\n", env={"SHELL": said})
    assert (ran.code, ran.out) == (0, f"{listed}\n")
