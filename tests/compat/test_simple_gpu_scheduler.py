"""simple_gpu_scheduler under its own name: its README run as written, and beside the original."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from feed_process import ALONE, UNTIL, FeedProcess, until_lines
from peers import peers_bin
from stoker.compat.console import ErrorFiles
from stoker.compat.simple_gpu_scheduler import PROGRAM, needs_of
from stoker.errors import UsageError
from stoker_home import Ran, StokerHome, is_running, kill_and_wait, pid_in
from waiting import PATIENCE_S, eventually

BIN = Path(sys.executable).parent

# Stands in for a training script: it notes its options and the GPU that it saw.
TRAIN = """\
import os, sys
gpu = os.environ["CUDA_VISIBLE_DEVICES"]
with open("seen.txt", "a") as seen:
    seen.write(f"{gpu} {' '.join(sys.argv[1:])}\\n")
"""
SAID = re.compile(r"Processing command `(.*)` on gpu (\S+)")


def with_scripts(home: StokerHome) -> StokerHome:
    home.env["PATH"] = f"{home.work / 'bin'}:{BIN}:{home.env['PATH']}"
    (home.work / "bin").mkdir()
    for name in ("train_model.py", "train_dnn.py"):
        (home.work / name).write_text(TRAIN)
    return home


@pytest.fixture
def shell(reused: StokerHome) -> StokerHome:
    """A directory with the README's scripts, and a shell that finds Stoker's commands first."""
    return with_scripts(reused)


@pytest.fixture
def new_shell(home: StokerHome) -> StokerHome:
    """The same, where nothing was ever started or declared."""
    return with_scripts(home)


def typed(home: StokerHome, line: str) -> Ran:
    """A command line as a user types it."""
    done = subprocess.run(
        ["bash", "-c", line], env=home.env, cwd=home.work, capture_output=True, timeout=PATIENCE_S
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def seen(home: StokerHome) -> list[tuple[str, str]]:
    """The GPU and the options of each run of a training script."""
    lines = (home.work / "seen.txt").read_text().splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


# ---------------------------------------------------------------------- its README, as written


def test_the_simple_example_prints_exactly_what_its_readme_shows(new_shell: StokerHome) -> None:
    (new_shell.work / "gpu_commands.txt").write_text(
        "python train_model.py --lr 0.001 --output run_1\n"
        "python train_model.py --lr 0.0005 --output run_2\n"
        "python train_model.py --lr 0.0001 --output run_3\n"
    )
    done = typed(new_shell, "simple_gpu_scheduler --gpus 0 1 2 < gpu_commands.txt")
    assert done.code == 0, done
    assert done.err == ""
    assert done.out == (
        "Processing command `python train_model.py --lr 0.001 --output run_1` on gpu 2\n"
        "Processing command `python train_model.py --lr 0.0005 --output run_2` on gpu 1\n"
        "Processing command `python train_model.py --lr 0.0001 --output run_3` on gpu 0\n"
    )
    assert sorted(seen(new_shell)) == [
        ("0", "--lr 0.0001 --output run_3"),
        ("1", "--lr 0.0005 --output run_2"),
        ("2", "--lr 0.001 --output run_1"),
    ]


def test_their_help_names_their_options(new_shell: StokerHome) -> None:
    done = typed(new_shell, "simple_gpu_scheduler -h")
    assert done.code == 0
    assert "--gpus" in done.out and "simple_gpu_scheduler --gpus 0 1 2" in done.out
    done = typed(new_shell, "simple_hypersearch -h")
    assert done.code == 0
    for option in ("--sampling-mode", "--n-samples", "--seed", "-p"):
        assert option in done.out


def test_a_hyperparameter_search_is_piped_into_it(shell: StokerHome) -> None:
    done = typed(
        shell,
        'simple_hypersearch "python3 train_dnn.py --lr {lr} --batch_size {bs}"'
        " -p lr 0.001 0.0005 0.0001 -p bs 32 64 128 | simple_gpu_scheduler --gpus 0,1,2",
    )
    assert done.code == 0, done
    assert sorted(options for _, options in seen(shell)) == sorted(
        f"--lr {lr} --batch_size {bs}"
        for lr in ("0.001", "0.0005", "0.0001")
        for bs in (32, 64, 128)
    )
    assert {gpu for gpu, _ in seen(shell)} <= {"0", "1", "2"}


def test_five_samples_of_a_search_are_piped_into_it(shell: StokerHome) -> None:
    done = typed(
        shell,
        'simple_hypersearch "python3 train_dnn.py --lr {lr} --batch_size {bs}" --n-samples 5'
        " -p lr 0.001 0.0005 0.0001 -p bs 32 64 128 | simple_gpu_scheduler --gpus 0,1,2",
    )
    assert done.code == 0, done
    assert len(seen(shell)) == len(set(seen(shell))) == 5
    assert len(SAID.findall(done.out)) == 5


def test_the_simple_scheduler_for_jobs_takes_what_is_appended_to_its_queue(
    shell: StokerHome,
) -> None:
    for name, text in (("my_command_with", "echo $CUDA_VISIBLE_DEVICES"), ("and", "sed s/^/GPU=/")):
        script = shell.work / "bin" / name
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
    typed(shell, "touch gpu.queue")
    typed(shell, 'echo "touch too-old" >> gpu.queue')
    # As written; only that tail leaves its pid, so that the test can end it.
    (shell.work / "bin" / "tail").write_text(
        '#!/bin/sh\necho $$ > tail.pid\nexec /usr/bin/tail "$@"'
    )
    (shell.work / "bin" / "tail").chmod(0o755)
    line = "tail -f -n 0 gpu.queue | simple_gpu_scheduler --gpus 0,1,2"
    with FeedProcess(shell, command=["bash", "-c", line], stdin=None) as scheduler:
        eventually(lambda: _follows(shell.work), "tail follows the queue")
        typed(shell, 'echo "my_command_with | and stuff > logfile" >> gpu.queue')
        assert until_lines(shell.work / "logfile", 1) == ["GPU=2"]
        assert scheduler.process.poll() is None
        os.kill(int((shell.work / "tail.pid").read_text()), signal.SIGTERM)
        assert scheduler.wait() == 0
    assert SAID.findall(scheduler.out) == [("my_command_with | and stuff > logfile", "2")]
    assert not (shell.work / "too-old").exists()


def _follows(work: Path) -> bool:
    try:
        fds = Path(f"/proc/{int((work / 'tail.pid').read_text())}/fd")
        return any(os.readlink(fd) == str(work / "gpu.queue") for fd in fds.iterdir())
    except (OSError, ValueError):
        return False


# ---------------------------------------------------------------------- beside the original


@pytest.mark.parametrize("gpus", [["0", "1", "2"], ["0,1,2"], ["5"]])
def test_the_same_commands_run_as_with_the_original_and_no_gpu_ever_holds_two(
    new_shell: StokerHome, gpus: list[str]
) -> None:
    lines = [ALONE.format(f"{number} 'ä %d {{}}'") for number in range(12)]
    text = "\n".join([*lines, "echo to the console", "echo aside >&2", "exit 3", "true | false"])
    found = {}
    for which, program in (("theirs", peers_bin()), ("ours", BIN)):
        work = new_shell.work / which
        work.mkdir()
        done = subprocess.run(
            [program / "simple_gpu_scheduler", "--gpus", *gpus],
            env=new_shell.env,
            cwd=work,
            input=text.encode() + b"\n",
            capture_output=True,
            timeout=PATIENCE_S * 2,
        )
        told = SAID.findall(done.stdout.decode())
        rest = [x for x in done.stdout.decode().splitlines() if not SAID.fullmatch(x)]
        ran = (work / "ran.txt").read_text().splitlines()
        found[which] = (
            done.returncode,
            sorted(command for command, _ in told),
            {gpu for _, gpu in told},
            sorted(line.split(" ", 1)[1] for line in ran),
            {line.split()[0] for line in ran},
            rest,
            done.stderr,
        )
    assert found["ours"] == found["theirs"]
    assert not (new_shell.work / "ours" / "clashes.txt").exists()
    assert not list((new_shell.work / "ours").glob("on-gpu-*"))


def test_it_takes_no_gpu_that_another_front_end_holds(new_shell: StokerHome) -> None:
    other = new_shell.add("--on", "1", "--", UNTIL.format("go"))
    new_shell.until_state(other, "running")
    done = typed(
        new_shell, f"yes 'true' | head -n 5 | simple_gpu_scheduler --gpus 0 1; {'touch go'}"
    )
    assert [gpu for _, gpu in SAID.findall(done.out)] == ["0"] * 5
    new_shell.until_final(other)


def test_several_of_them_share_the_gpus_without_a_clash(shell: StokerHome) -> None:
    (shell.work / "commands.txt").write_text((ALONE.format("x") + "\n") * 10)
    one = "simple_gpu_scheduler --gpus 0 1 < commands.txt"
    done = typed(shell, f"{one} & {one} & {one} & wait")
    assert done.code == 0
    assert len((shell.work / "ran.txt").read_text().splitlines()) == 30, done
    assert not (shell.work / "clashes.txt").exists()


def test_one_that_ends_takes_no_directory_from_one_that_just_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = ErrorFiles(str(tmp_path), "ending")
    mkdir = os.mkdir

    def ends_meanwhile(path: str, mode: int) -> None:
        ending.close()
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", ends_meanwhile)
    ErrorFiles(str(tmp_path), "beginning").close()
    assert list(tmp_path.glob("consoles/*")) == []


# ---------------------------------------------------------------------- what is seen


def test_what_the_commands_print_appears_while_they_run(new_shell: StokerHome) -> None:
    with FeedProcess(new_shell, command=["simple_gpu_scheduler", "--gpus", "0"]) as scheduler:
        scheduler.write(f"echo first; echo aside >&2; {UNTIL.format('go')}; printf last")
        eventually(lambda: "first\n" in scheduler.out, "its output is shown")
        eventually(lambda: scheduler.err == "aside\n", "its errors are shown apart")
        (new_shell.work / "go").touch()
        scheduler.end_of_input()
        assert scheduler.wait() == 0
    assert scheduler.out.endswith("first\nlast")
    assert list(Path(new_shell.home.root).glob("consoles/*")) == []


def test_output_and_errors_of_one_place_keep_their_order(shell: StokerHome) -> None:
    line = "for i in 1 2 3; do echo out $i; echo err $i >&2; done"
    done = typed(shell, f"echo '{line}' | simple_gpu_scheduler --gpus 0 2>&1")
    assert done.out.splitlines()[1:] == ["out 1", "err 1", "out 2", "err 2", "out 3", "err 3"]


def test_every_byte_of_a_large_output_arrives(shell: StokerHome) -> None:
    done = typed(shell, "echo 'seq 500000' | simple_gpu_scheduler --gpus 0 | tail -n +2 | md5sum")
    assert done.out == typed(shell, "seq 500000 | md5sum").out


def test_when_nobody_reads_any_more_no_further_commands_start(shell: StokerHome) -> None:
    line = "yes 'sleep 0.01' | head -n 2000 | simple_gpu_scheduler --gpus 0 | head -n 1"
    done = typed(shell, f"{line}; exit ${{PIPESTATUS[2]}}")
    assert done.code == 141
    assert len(done.out.splitlines()) == 1
    states = [job["state"] for job in shell.jobs().values()]
    assert "waiting" not in states and states.count("cancelled") > 100


def test_an_interrupt_lets_the_running_ones_finish_and_a_second_stops_them(
    shell: StokerHome,
) -> None:
    with FeedProcess(shell, command=["simple_gpu_scheduler", "--gpus", "0"]) as scheduler:
        scheduler.write("echo on >> ran.txt; sleep 999", "touch never")
        until_lines(shell.work / "ran.txt", 1)
        eventually(lambda: "Processing" in scheduler.out, "it has heard of the start")
        scheduler.send(signal.SIGINT)
        scheduler.until_said("may finish")
        scheduler.send(signal.SIGINT)
        assert scheduler.wait() == 130
    assert not (shell.work / "never").exists()
    assert [job["state"] for job in shell.jobs().values()] == ["cancelled", "cancelled"]


# ---------------------------------------------------------------------- which GPUs


def test_gpus_are_understood_as_the_original_does() -> None:
    for words in (["0", "1", "2"], ["0,1,2"]):
        [need] = needs_of(words)
        assert (need["on"], need["gpus"]) == (["0", "1", "2"], 1)
    assert needs_of(["0,1", "2,3"]) == [
        {"gpus": 2, "on": ["0", "1"], "prefer": ["0", "1"]},
        {"gpus": 2, "on": ["2", "3"], "prefer": ["2", "3"]},
    ]
    assert [need["on"] for need in needs_of(["0,1", "2"])] == [["0", "1"], ["2"]]
    for words in (["0", "0", "1", "1"], ["0,0,1,1"]):
        assert needs_of(words) == [
            {"share": 0.5, "max_per_gpu": 2, "on": ["0", "1"], "prefer": ["1", "0"]}
        ]


def test_sets_may_have_a_gpu_in_common() -> None:
    assert needs_of(["0,1", "0,2", "0"]) == [
        {"gpus": 2, "on": ["0", "1"], "prefer": ["0", "1"]},
        {"gpus": 2, "on": ["0", "2"], "prefer": ["0", "2"]},
        {"gpus": 1, "on": ["0"], "prefer": ["0"]},
    ]
    assert [need.get("share") for need in needs_of(["0,1", "2", "2", "0,1"])] == [
        None, 0.5, 0.5, None,
    ]  # fmt: skip


@pytest.mark.parametrize("sharers", range(2, 41))
def test_all_that_share_a_gpu_fit_on_it_at_the_same_time(sharers: int) -> None:
    [need] = needs_of(["0"] * sharers)
    assert need["max_per_gpu"] == sharers
    # The daemon counts in thousandths.
    assert round(need["share"] * 1000) * sharers <= 1000
    assert (round(need["share"] * 1000) + 1) * sharers > 1000


@pytest.mark.parametrize("words", [["0", "0", "1"], ["x y"], [""], ["0,,1"]])
def test_gpus_that_make_no_sense_are_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        needs_of(words)


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        ("", "true"),
        ("--gpus", "true"),
        ("--gpus 0 --what", "true"),
        ("--gpus 0 0 1", "true"),
        ("--gpus 9", "true"),
    ],
)
def test_bad_input_is_one_clear_line_and_nothing_is_queued(
    shell: StokerHome, words: str, stdin: str
) -> None:
    shell.start(gpus="0-3")
    done = typed(shell, f"echo {stdin} | simple_gpu_scheduler {words}")
    assert done.code == 2
    assert done.out == ""
    [complaint] = done.err.splitlines()
    assert complaint.startswith("simple_gpu_scheduler: ") and ";" in complaint
    assert shell.jobs() == {}


# ---------------------------------------------------------------------- pairs, beside the original


@pytest.mark.parametrize("gpus", ["0,1 2,3", "1,0 3,2", "0,1 2"])
def test_commands_get_the_pairs_that_were_named_in_their_order(
    shell: StokerHome, gpus: str
) -> None:
    commands = [f"python train_model.py --n {n}" for n in range(8)]
    (shell.work / "commands.txt").write_text("\n".join(commands) + "\n")
    theirs = typed(shell, f"{peers_bin()}/simple_gpu_scheduler --gpus {gpus} < commands.txt")
    named = {found[2] for found in SAID.finditer(theirs.out)}
    assert named == set(gpus.split())
    ours = typed(shell, f"simple_gpu_scheduler --gpus {gpus} < commands.txt")
    assert (ours.code, ours.err) == (0, ""), ours
    told = [found[2] for found in SAID.finditer(ours.out)]
    assert len(told) == 8 and set(told) <= named
    assert sorted(gpu for gpu, _ in seen(shell)[8:]) == sorted(told)
    first = {found[1]: found[2] for found in SAID.finditer(ours.out)}
    last, *_ = reversed(gpus.split())
    assert first[commands[0]] == last, "the last goes first, as there"


def test_a_pair_that_is_busy_keeps_no_command_from_another_pair(shell: StokerHome) -> None:
    busy = shell.add("--on", "3", "--", "sleep", "1000")
    shell.until_pid(busy)
    (shell.work / "commands.txt").write_text("python train_model.py --n {}\n" * 3)
    feed = subprocess.Popen(
        [BIN / "simple_gpu_scheduler", "--gpus", "0,1", "2,3"],
        env=shell.env, cwd=shell.work, stdin=(shell.work / "commands.txt").open(),
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    ran = shell.work / "seen.txt"
    eventually(lambda: ran.exists() and len(seen(shell)) == 2, "two have run on the other pair")
    assert {gpu for gpu, _ in seen(shell)} == {"0,1"}
    shell.stoker("cancel", str(busy))
    assert feed.wait(PATIENCE_S) == 0
    assert {gpu for gpu, _ in seen(shell)} == {"0,1", "2,3"}


def test_sets_with_a_gpu_in_common_take_turns(shell: StokerHome) -> None:
    (shell.work / "commands.txt").write_text("mkdir held && sleep 0.1 && rmdir held\n" * 6)
    ran = typed(shell, "simple_gpu_scheduler --gpus 0,1 0,2 < commands.txt")
    assert (ran.code, ran.err) == (0, ""), ran
    assert {found[2] for found in SAID.finditer(ran.out)} == {"0,1", "0,2"}
    assert {job["state"] for job in shell.jobs().values()} == {"succeeded"}


# ---------------------------------------------------------------------- GPUs that there are not


def test_a_gpu_that_does_not_exist_is_refused_before_the_first_command_comes(
    shell: StokerHome,
) -> None:
    done = subprocess.run(
        [BIN / "simple_gpu_scheduler", "--gpus", "0", "22"],
        env=shell.env, cwd=shell.work, stdin=subprocess.PIPE, capture_output=True,
        timeout=PATIENCE_S, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, "no command was ever given"
    assert done.stderr.startswith("simple_gpu_scheduler: there is no GPU 22;")


def test_a_gpu_that_nothing_declares_lasts_as_long_as_the_command(new_shell: StokerHome) -> None:
    new_shell.start()
    done = typed(new_shell, "echo true | simple_gpu_scheduler --gpus 22")
    assert done.code == 0, done
    assert new_shell.call("gpus")["gpus"] == []
    # One that another job waits for stays as long as that does.
    other = new_shell.submit("true", on=["22"], hold=True)
    assert typed(new_shell, "echo true | simple_gpu_scheduler --gpus 22").code == 0
    assert [gpu["id"] for gpu in new_shell.call("gpus")["gpus"]] == ["22"]
    new_shell.stoker("release", str(other))
    assert new_shell.until_final(other)[0]["state"] == "succeeded"


def test_a_gpu_that_two_commands_name_at_once_lasts_as_long_as_both(new_shell: StokerHome) -> None:
    new_shell.start()

    def gpus() -> list[str]:
        return [gpu["id"] for gpu in new_shell.call("gpus")["gpus"]]

    command = [str(BIN / PROGRAM), "--gpus", "22"]
    with FeedProcess(new_shell, command=command) as first:
        first.write("true")
        eventually(lambda: gpus() == ["22"])
        with FeedProcess(new_shell, command=[*command, "23"]) as second:
            eventually(lambda: gpus() == ["22", "23"], "it has named its own")
            first.end_of_input()
            assert first.wait() == 0
            assert gpus() == ["22", "23"], "the other goes on, though it has no job now"
            new_shell.kill_daemon()  # The next one knows of both, too.
            new_shell.start()
            second.write("true", "true")
            second.end_of_input()
            assert second.wait() == 0
    assert gpus() == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_a_gpu_that_nothing_declares_lasts_as_long_as_the_last_job_of_a_killed_command(
    new_shell: StokerHome, number: int
) -> None:
    new_shell.start()
    command = [str(BIN / PROGRAM), "--gpus", "22"]
    with FeedProcess(new_shell, command=command) as feed:
        feed.write("echo $$ > pid; exec sleep 1000")
        pid = pid_in(new_shell.work / "pid")
        feed.send(number)
        feed.wait()
        assert [gpu["id"] for gpu in new_shell.call("gpus")["gpus"]] == ["22"]
        if number == signal.SIGKILL:
            new_shell.kill_daemon()  # The next one knows of it, too.
            new_shell.start()
        kill_and_wait(pid)
        eventually(lambda: new_shell.call("gpus")["gpus"] == [], "GPU 22 is forgotten")
        # Whoever names it later, without such a command, keeps it as ever.
        new_shell.until_final(new_shell.submit("true", on=["22"]))
        assert [gpu["id"] for gpu in new_shell.call("gpus")["gpus"]] == ["22"]


# ---------------------------------------------------------------------- what is left behind


@pytest.mark.parametrize("whose", ["original", "ours"])
def test_a_background_process_of_a_command_lives_on(shell: StokerHome, whose: str) -> None:
    command = f"{peers_bin()}/simple_gpu_scheduler" if whose == "original" else PROGRAM
    (shell.work / "commands.txt").write_text("nohup sleep 1000 >/dev/null 2>&1 & echo $! > pid\n")
    assert typed(shell, f"{command} --gpus 1 < commands.txt").code == 0
    pid = pid_in(shell.work / "pid")
    if whose == "ours":
        [job] = shell.jobs().values()
        assert job["state"] == "succeeded"
        after = shell.add("--on", "1", "--", "true")
        shell.until_final(after)
    assert is_running(pid)
    kill_and_wait(pid)


def test_a_job_says_itself_that_what_it_leaves_behind_lives_on(shell: StokerHome) -> None:
    line = "nohup sleep 1000 >/dev/null 2>&1 & echo $! > {}"
    kept = shell.add("--keep-children", "--grace", "0", "--", line.format("kept"))
    ended = shell.add("--grace", "0", "--", line.format("ended"))
    shell.until_final(kept, ended)
    assert is_running(pid_in(shell.work / "kept"))
    assert not is_running(pid_in(shell.work / "ended"))
    kill_and_wait(pid_in(shell.work / "kept"))
