"""scheduler.py as its description has it: the commands are run as they are written there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker_home import Ran, StokerHome, all_gone, is_running, lines_of, pid_in
from terminals import Terminal
from waiting import PATIENCE_S, eventually

# What stands in for the scheduler's own file in a user's directory.
SCRIPT = f"""\
#!{sys.executable}
import sys
from stoker.compat.scheduler import main
sys.exit(main())
"""
TASK = """\
import os, sys
print("arguments", *sys.argv[1:])
print("sees", os.environ["STOKER_GPUS"], file=sys.stderr)
"""


@dataclass(frozen=True)
class Lab:
    """A directory with scheduler.py, and one in it with the tasks."""

    home: StokerHome

    @property
    def folder(self) -> Path:
        return self.home.work / "task"

    def sh(self, command: str, cwd: Path | None = None) -> Ran:
        """Run a line as it would be typed."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env=self.home.env,
            cwd=cwd or self.folder,
            capture_output=True,
            timeout=PATIENCE_S,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def terminal(self, *words: str) -> Terminal:
        return Terminal(["../scheduler.py", *words], self.home.env, self.folder)

    def popen(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["../scheduler.py", *words],
            env=self.home.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def task(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def kept(self, ending: str) -> list[str]:
        """What is in the dated folder, by the ending of the files' names."""
        return [path.read_text() for path in sorted(self.folder.glob(f"????-??-??/*.{ending}"))]

    def gpus(self) -> dict[str, str]:
        return {gpu["id"]: gpu["state"] for gpu in self.home.call("gpus")["gpus"]}


def with_script(home: StokerHome) -> Lab:
    script = home.work / "scheduler.py"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    found = Lab(home)
    found.folder.mkdir()
    found.task("test1.py", TASK)
    return found


@pytest.fixture
def lab(reused: StokerHome) -> Lab:
    return with_script(reused)


@pytest.fixture
def new_lab(home: StokerHome) -> Lab:
    """One in which nothing was ever started or declared."""
    return with_script(home)


# ---------------------------------------------------------------------- as it is described


def test_its_help_has_all_its_options(new_lab: Lab) -> None:
    ran = new_lab.sh("./scheduler.py -h", new_lab.home.work)
    assert ran.code == 0
    for option in ("-t TASK", "--task TASK", "-gc GPU_COUNT", "--gpu_count GPU_COUNT", "-v",
                   "-i INIT [INIT ...]", "--init INIT [INIT ...]", "-o [OUT]", "--out [OUT]",
                   "--verbose", "-e [ERR]", "--err [ERR]"):  # fmt: skip
        assert option in ran.out


def test_its_example_runs_with_the_ids_of_its_gpus_appended(new_lab: Lab) -> None:
    ran = new_lab.sh('../scheduler.py -t "test1.py -foo 1 -v --bar 0" --gpu_count 2')
    assert ran.code == 0, ran
    assert ran.out == "arguments -foo 1 -v --bar 0 --gpu 0 1\n"
    assert ran.err == "sees 0,1\n"


def test_it_runs_as_a_module_and_takes_the_task_without_an_option(lab: Lab) -> None:
    ran = lab.sh(f'{sys.executable} -m stoker.compat.scheduler "test1.py -foo 1" -gc 1')
    assert (ran.code, ran.out) == (0, "arguments -foo 1 --gpu 0\n"), ran


def test_four_gpus_are_free_if_it_was_never_initialised(new_lab: Lab) -> None:
    assert new_lab.sh('../scheduler.py "test1.py" -gc 4').out == "arguments --gpu 0 1 2 3\n"
    refused = new_lab.sh('../scheduler.py "test1.py" -gc 5')
    assert refused.code == 2
    assert "needs 5 GPUs" in refused.err


def test_init_5_3_4_means_five_gpus_of_which_3_and_4_are_unavailable(new_lab: Lab) -> None:
    assert new_lab.sh("../scheduler.py -i 5 3 4").code == 0
    assert new_lab.gpus() == {"0": "free", "1": "free", "2": "free", "3": "drained", "4": "drained"}
    assert new_lab.sh('../scheduler.py -t "test1.py" -gc 3').out == "arguments --gpu 0 1 2\n"
    assert new_lab.sh('../scheduler.py -t "test1.py" --init 2 0').out == "arguments --gpu 1\n"
    assert new_lab.gpus() == {"0": "drained", "1": "free"}
    assert not new_lab.home.call("status")["paused"]


def test_what_it_prints_is_kept_in_a_folder_named_after_the_date(lab: Lab) -> None:
    assert lab.sh('../scheduler.py -t "test1.py"').code == 0
    assert lab.sh('../scheduler.py -t "test1.py -foo 1"').code == 0
    assert sorted(lab.kept("out")) == ["arguments --gpu 0\n", "arguments -foo 1 --gpu 0\n"]
    assert lab.kept("err") == ["sees 0\n", "sees 0\n"]
    assert {p.name for p in lab.folder.iterdir()} - {"test1.py"} == {
        p.parent.name for p in lab.folder.glob("*/*.out")
    }


def test_a_file_that_is_named_takes_the_place_of_the_terminal(lab: Lab) -> None:
    lab.task("old.txt", "from before\n")
    ran = lab.sh('../scheduler.py -t "test1.py" -o old.txt -e errors.txt')
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (lab.folder / "old.txt").read_text() == "arguments --gpu 0\n"
    assert (lab.folder / "errors.txt").read_text() == "sees 0\n"
    assert sorted(lab.kept("txt")) == ["arguments --gpu 0\n", "sees 0\n"]
    ran = lab.sh('../scheduler.py -t "test1.py" -o')
    assert ran.out == "arguments --gpu 0\n"


def test_verbose_tells_task_files_start_end_and_total_time(lab: Lab) -> None:
    ran = lab.sh('../scheduler.py -v -t "test1.py -foo 1"')
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    told = re.search(
        rf"task: test1.py -foo 1\nstdout: (.*)\nstderr: (.*)\nstart: {moment}\nend: {moment}\n"
        r"total time: 0:00:\d\d\n",
        ran.out,
    )
    assert told is not None, ran.out
    assert Path(told[1]).read_text() == "arguments -foo 1 --gpu 0\n"
    assert Path(told[2]).read_text() == "sees 0\n"


# ---------------------------------------------------------------------- which task


@pytest.mark.parametrize(
    ("name", "text", "mode", "task"),
    [
        ("plain.py", "import sys; print(sys.argv[1:])", 0o644, "plain.py a"),
        ("bare.py", "import sys; print(sys.argv[1:])", 0o755, "bare.py a"),
        ("run.py", f"#!{sys.executable}\nimport sys; print(sys.argv[1:])", 0o755, "run.py a"),
        ("run.py", f"#!{sys.executable}\nimport sys; print(sys.argv[1:])", 0o755, "./run.py a"),
        ("mine", f"#!{sys.executable}\nimport sys; print(sys.argv[1:])", 0o755, "mine a"),
        ("one.py", "import sys; print(sys.argv[1:])", 0o644, f"{sys.executable} one.py a"),
    ],
)
def test_a_script_of_the_current_directory_is_found(
    lab: Lab, name: str, text: str, mode: int, task: str
) -> None:
    lab.task(name, text)
    (lab.folder / name).chmod(mode)
    assert lab.sh(f'../scheduler.py "{task}"').out == "['a', '--gpu', '0']\n"


def test_its_exit_code_is_the_tasks_own(lab: Lab) -> None:
    lab.task("fails.py", "import sys; sys.exit(7)")
    lab.task("dies.py", "import os; os.kill(os.getpid(), 9)")
    assert lab.sh("../scheduler.py fails.py").code == 7
    assert lab.sh("../scheduler.py dies.py").code == 128 + 9


def test_bad_input_is_refused_in_one_line_and_nothing_is_queued(lab: Lab) -> None:
    lab.home.start(gpus="0-3")
    for words in ("", "-gc 2", "-gc x test1.py", "-gc 0 test1.py", "-t test1.py test1.py",
                  "-t ''", "'no-such-program x'", "\"test1.py 'x\"", "-i 0", "-i 4 4", "-i 4 -1",
                  "-i x", "--wrong", "test1.py -o no/such/file", "-gc 99 test1.py"):  # fmt: skip
        ran = lab.sh(f"../scheduler.py {words}")
        assert ran.code == 2, (words, ran)
        assert ran.err.startswith("scheduler: ") and ran.err.count("\n") == 1, ran.err
    assert lab.home.jobs() == {}
    assert {p.name for p in lab.folder.iterdir()} == {"test1.py"}


# ---------------------------------------------------------------------- in a terminal


def test_the_task_has_the_users_terminal(lab: Lab) -> None:
    lab.task(
        "talks.py",
        "import os, sys\n"
        "print('is', [os.isatty(n) for n in (0, 1, 2)], os.get_terminal_size(1).columns)\n"
        "print('said', input('say: '))\n",
    )
    with lab.terminal("talks.py", "-v") as terminal:
        terminal.until(b"say: ")
        terminal.type(b"something\n")
        assert terminal.wait() == 0
    assert b"is [True, True, True]" in terminal.screen
    assert b"said something" in terminal.screen
    assert b"\r\r\n" not in terminal.screen
    (kept,) = lab.kept("out")
    assert "said something\n" in kept and "\r" not in kept


def test_the_first_ctrl_c_interrupts_the_second_terminates_the_third_kills(lab: Lab) -> None:
    lab.task(
        "stubborn.py",
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'terminated\\n'))\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()\n",
    )
    with lab.terminal("stubborn.py") as terminal:
        for shown in (b"ready", b"^C", b"terminated"):
            terminal.until(shown)
            terminal.type(b"\x03")
        assert terminal.wait() == 128 + 9
    (job,) = lab.home.jobs().values()
    lab.home.until_final(job["id"])
    assert lab.gpus() == {"0": "free", "1": "free", "2": "free", "3": "free"}
    (kept,) = lab.kept("out")
    assert kept == "ready\nterminated\n"


def test_ctrl_c_while_it_waits_takes_the_task_back(lab: Lab) -> None:
    lab.home.start(gpus="0")
    holder = lab.home.submit("sleep", "600")
    lab.home.until_state(holder, "running")
    with lab.terminal("test1.py") as terminal:
        terminal.until(b"waits")
        terminal.type(b"\x03")
        assert terminal.wait() == 130
    assert [job["state"] for job in lab.home.jobs().values()] == ["running", "cancelled"]
    assert {p.name for p in lab.folder.iterdir()} == {"test1.py"}


def test_a_terminal_that_is_closed_leaves_what_was_printed_in_the_folder(lab: Lab) -> None:
    lab.task(
        "goes_on.py",
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])\n"
        "print('before', flush=True)\n"
        "signal.sigwait([signal.SIGHUP])\n"
        "print('after', flush=True)\n",
    )
    with lab.terminal("goes_on.py") as terminal:
        terminal.until(b"before")
        terminal.hang_up()
        assert terminal.wait() == 0
    assert lab.kept("out") == ["before\nafter\n"]


# ---------------------------------------------------------------------- what it prints


def test_not_a_byte_is_lost_of_ten_megabytes_on_both_streams(lab: Lab) -> None:
    lab.task(
        "loud.py",
        "import sys\n"
        "for n in range(100_000):\n"
        "    print(n, 'x' * 90)\n"
        "    print(n, file=sys.stderr)\n"
        "sys.stdout.write('no line end')\n",
    )
    ran = lab.sh("../scheduler.py loud.py")
    expected = "".join(f"{n} {'x' * 90}\n" for n in range(100_000)) + "no line end"
    assert ran.out == expected
    assert ran.err == "".join(f"{n}\n" for n in range(100_000))
    assert lab.kept("out") == [expected]
    assert lab.kept("err") == [ran.err]


def test_a_child_that_keeps_the_output_open_does_not_hold_it_up(lab: Lab) -> None:
    lab.task("parent.sh", "#!/bin/sh\nsetsid sleep 600 & echo $! > child; echo done\n")
    (lab.folder / "parent.sh").chmod(0o755)
    with lab.popen("./parent.sh") as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"done\n"
        assert process.wait(PATIENCE_S) == 0
    os.kill(pid_in(lab.folder / "child"), signal.SIGKILL)


# ---------------------------------------------------------------------- many at once


def test_twenty_started_at_once_from_different_terminals_never_share_a_gpu(lab: Lab) -> None:
    # A directory can be made once: whoever has a GPU while another has it finds it there.
    lab.task(
        "takes.py",
        "import os, sys\n"
        "gpus = sys.argv[sys.argv.index('--gpu') + 1:]\n"
        "for gpu in gpus: os.mkdir(f'gpu{gpu}')\n"
        "with open('taken', 'a') as file: print(*gpus, file=file)\n"
        "for gpu in gpus: os.rmdir(f'gpu{gpu}')\n",
    )
    with ExitStack() as stack:
        terminals = [
            stack.enter_context(lab.terminal("takes.py", "-gc", str(1 + n % 2))) for n in range(20)
        ]
        assert [terminal.wait() for terminal in terminals] == [0] * 20, [
            terminal.screen for terminal in terminals
        ]
    taken = [line.split() for line in lines_of(lab.folder / "taken")]
    assert sorted(map(len, taken)) == [1] * 10 + [2] * 10
    assert {gpu for gpus in taken for gpu in gpus} <= {"0", "1", "2", "3"}
    assert len(lab.kept("out")) == 20


SLEEPS = """\
import os, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
with open("pids", "w") as file:
    print(os.getpid(), child.pid, file=file)
child.wait()
"""


def pids_of(lab: Lab) -> list[int]:
    line = eventually(lambda: lines_of(lab.folder / "pids"), "the task runs")[0]
    return [int(word) for word in line.split()]


def test_one_that_is_killed_with_sigkill_gives_its_gpus_back(lab: Lab) -> None:
    lab.task("sleeps.py", SLEEPS)
    with lab.popen("sleeps.py", "-gc", "4") as process:
        pids = pids_of(lab)
        process.kill()
        process.wait(PATIENCE_S)
    eventually(lambda: all_gone(pids), "the task has ended, and its child")
    assert lab.sh("../scheduler.py test1.py -gc 4").out == "arguments --gpu 0 1 2 3\n"
    first, *_ = lab.home.jobs().values()
    assert first["state"] == "cancelled"


def test_one_that_is_killed_together_with_the_daemon_stops_its_task_too(lab: Lab) -> None:
    lab.task("sleeps.py", SLEEPS)
    with lab.popen("sleeps.py", "-gc", "4") as process:
        pids = pids_of(lab)
        lab.home.until_state(lab.home.nth(1), "running")
        lab.home.kill_daemon()
        process.kill()
        process.wait(PATIENCE_S)
    eventually(lambda: all_gone(pids), "the task has ended, and its child")
    assert lab.sh("../scheduler.py test1.py -gc 4").out == "arguments --gpu 0 1 2 3\n"


def test_one_that_is_killed_while_it_waits_is_forgotten(lab: Lab) -> None:
    lab.home.start(gpus="0")
    holder = lab.home.submit("sleep", "600")
    with lab.popen("test1.py") as process:
        assert process.stderr is not None
        assert b"waits" in process.stderr.readline()
        process.kill()
        process.wait(PATIENCE_S)
    (job,) = lab.home.until_final(holder + 1)
    assert job["state"] == "cancelled"


def test_nothing_of_it_is_left_when_the_task_has_ended(lab: Lab) -> None:
    before = set(lab.home.processes())
    ran = lab.sh("../scheduler.py test1.py")
    assert ran.code == 0
    daemon = lab.home.daemon_pid()
    keeper = lab.home.keeper_pid()
    left = set(lab.home.processes()) - before - {daemon, keeper}
    assert not [pid for pid in left if is_running(pid)]
    assert lab.home.jobs()[lab.home.nth(1)]["log"].endswith(".out"), (
        "`stoker logs` finds what it printed"
    )


# ---------------------------------------------------------------------- options of other versions


def test_a_gpu_may_be_forced_or_preferred_and_is_told_in_the_environment(new_lab: Lab) -> None:
    new_lab.task("env.py", "import os, sys; print(os.environ['GPU'], *sys.argv[1:])")
    assert new_lab.sh('../scheduler.py "env.py foo --port __num__" -fg 2').out == (
        "cuda2 foo --port 3800\n"
    )
    assert new_lab.sh('../scheduler.py "env.py foo" --prefered_gpu 3').out == "cuda3 foo\n"
    assert new_lab.sh("../scheduler.py env.py").out == "cuda0 --gpu 0\n"
    assert new_lab.sh("../scheduler.py env.py -fg 3 -pg 3").out == "cuda3\n"
    for words in ("env.py -fg 9", "env.py -fg 1 -gc 2", "-rg 9", "env.py -fg 1 -pg 0"):
        refused = new_lab.sh(f"../scheduler.py {words}")
        assert refused.code in (2, 3) and refused.err.count("\n") == 1, refused


def test_gpus_may_be_released_and_looked_at(new_lab: Lab) -> None:
    assert new_lab.sh("../scheduler.py -i 3 1 2").code == 0
    assert new_lab.sh("../scheduler.py -rg 1 2").code == 0
    assert set(new_lab.gpus().values()) == {"free"}
    ran = new_lab.sh("../scheduler.py -s")
    assert ran.code == 0 and "GPU" in ran.out
