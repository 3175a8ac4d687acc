"""Bad input of every kind: one line that says what to do, the right exit code, no harm done."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from stoker_home import StokerHome

USAGE, FAILED, NOT_FOUND, UNREACHABLE = 2, 1, 3, 4


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> object:
    """One daemon for all of these: each must leave it as it was for the next."""
    home = StokerHome(tmp_path_factory.mktemp("bad-input"))
    home.start(gpus="0:24G,1:24G")
    home.submit("true")
    home.until_final(1)
    home.call("pause")
    home.submit("true", name="waits", hold=False)
    try:
        yield home
        jobs = home.jobs()
        assert {i: job["state"] for i, job in jobs.items()} == {1: "succeeded", 2: "waiting"}
        assert "Traceback" not in home.log_text()
    finally:
        home.clean_up()


CASES: list[tuple[list[str], int, str]] = [
    (["add", "--gpu", "1", "--", "true"], USAGE, "--gpus"),
    (["add", "--nonsense", "--", "true"], USAGE, "--nonsense"),
    (["frobnicate"], USAGE, "frobnicate"),
    (["add"], USAGE, "command"),
    (["add", "--"], USAGE, "command"),
    (["add", "--", ""], USAGE, "command"),
    (["add", "--", "   "], USAGE, "command"),
    (["add", "--gpus", "3", "--", "true"], USAGE, "needs 3 GPUs, but there are only 2"),
    (["add", "--gpus", "-1", "--", "true"], USAGE, "-1"),
    (["add", "--gpus", "1.5", "--", "true"], USAGE, "1.5"),
    (["add", "--gpus", "many", "--", "true"], USAGE, "many"),
    (["add", "--gpus", "99999999999", "--", "true"], USAGE, "too many"),
    (["add", "--mem", "30G", "--", "true"], USAGE, "24.0 GiB"),
    (["add", "--mem", "eight", "--", "true"], USAGE, "eight"),
    (["add", "--mem", "8X", "--", "true"], USAGE, "8X"),
    (["add", "--mem", "0", "--", "true"], USAGE, "8G"),
    (["add", "--mem", "10", "--", "true"], USAGE, "10G or 10M?"),
    (["add", "--time-limit", "2", "--", "true"], USAGE, "2m or 2h?"),
    (["config", "set", "grace", "5"], USAGE, "5s or 5m?"),
    (["config", "set", "mem-margin", "10"], USAGE, "10G or 10M?"),
    (["config", "set", "gpus", "0:24"], USAGE, "24G or 24M?"),
    (["add", "--mem", "-8G", "--", "true"], USAGE, "-8G"),
    (["add", "--on", "7", "--", "true"], USAGE, "no GPU 7"),
    (["add", "--on", "0,,1", "--", "true"], USAGE, "0,,1"),
    (["add", "--on", "0", "--gpus", "2", "--", "true"], USAGE, "--on"),
    (["add", "--prefer", "9", "--", "true"], USAGE, "no GPU 9"),
    (["add", "--on", "1", "--prefer", "1,0", "--", "true"], USAGE, "0 is not among the GPUs"),
    (["add", "--gpus", "0", "--mem", "1G", "--", "true"], USAGE, "--mem"),
    (["add", "--cpus", "999999", "--", "true"], USAGE, "CPU slots"),
    (["add", "--cpus", "some", "--", "true"], USAGE, "some"),
    (["add", "--priority", "high", "--", "true"], USAGE, "high"),
    (["add", "--time-limit", "soon", "--", "true"], USAGE, "soon"),
    (["add", "--time-limit", "0", "--", "true"], USAGE, "zero"),
    (["add", "--time-limit", "99999999d", "--", "true"], USAGE, "too long"),
    (["add", "--grace", "5x", "--", "true"], USAGE, "5x"),
    (["add", "--signal", "USR1@2m", "--", "true"], USAGE, "--time-limit"),
    (["add", "--signal", "NOPE@2m", "--time-limit", "1h", "--", "true"], USAGE, "NOPE"),
    (["add", "--signal", "USR1@2h", "--time-limit", "1h", "--", "true"], USAGE, "--signal"),
    (["add", "--retries", "-1", "--", "true"], USAGE, "-1"),
    (["add", "--at", "25:00", "--", "true"], USAGE, "25:00"),
    (["add", "--at", "2001-01-01T08:00", "--", "true"], USAGE, "has passed"),
    (["add", "--after", "999", "--", "true"], NOT_FOUND, "no job 999"),
    (["add", "--after", "1,999", "--", "true"], NOT_FOUND, "no job 999"),
    (["add", "--after", "first", "--", "true"], USAGE, "first"),
    (["add", "--after-any", "77", "--", "true"], NOT_FOUND, "no job 77"),
    (["add", "--cwd", "/no/such/dir", "--", "true"], USAGE, "/no/such/dir"),
    (["add", "--cwd", "/etc/passwd", "--", "true"], USAGE, "/etc/passwd"),
    (["add", "--out", "/no/such/dir/x", "--", "true"], USAGE, "/no/such/dir"),
    (["add", "--out", "/tmp", "--", "true"], USAGE, "directory"),
    (["add", "--env", "NOVALUE", "--", "true"], USAGE, "NOVALUE"),
    (["add", "--env", "=x", "--", "true"], USAGE, "=x"),
    (["add", "--name", "two\nlines", "--", "true"], USAGE, "newline"),
    (["add", "--name", "", "--", "true"], USAGE, "name"),
    (["add", "--name", "x" * 1000, "--", "true"], USAGE, "too long"),
    (["add", "--group", "a\tb", "--", "true"], USAGE, "control character"),
    (["add", "--", "no-such-program-anywhere", "arg"], USAGE, "was not found"),
    (["add", "--", "/etc/passwd", "arg"], USAGE, "not executable"),
    (["run", "--", "no-such-program-anywhere", "arg"], USAGE, "was not found"),
    (["show", "99"], NOT_FOUND, "no job 99"),
    (["show", "x"], USAGE, "'x'"),
    (["show", "9-3"], USAGE, "backwards"),
    (["show", "1", "99"], NOT_FOUND, "no job 99"),
    (["show"], USAGE, "no job was named"),
    (["show", "--name", "nobody"], NOT_FOUND, "nobody"),
    (["why", "99"], NOT_FOUND, "no job 99"),
    (["logs", "99"], NOT_FOUND, "no job 99"),
    (["logs", "2"], FAILED, "no log yet"),
    (["wait", "99"], NOT_FOUND, "no job 99"),
    (["wait", "--timeout", "never", "1"], USAGE, "never"),
    (["wait", "--group", "nope"], NOT_FOUND, "no such jobs"),
    (["wait", "--name", "nobody"], NOT_FOUND, "no such jobs"),
    (["cancel", "99"], NOT_FOUND, "no job 99"),
    (["cancel", "1"], FAILED, "has ended already"),
    (["cancel"], USAGE, "no job was named"),
    (["retry", "2"], FAILED, "has not ended"),
    (["hold", "1"], FAILED, "succeeded"),
    (["release", "2"], FAILED, "only a job that is held"),
    (["edit", "1", "--priority", "3"], FAILED, "only a job that waits"),
    (["edit", "2"], USAGE, "nothing to change"),
    (["edit", "2", "--gpus", "5"], USAGE, "needs 5 GPUs"),
    (["edit", "99", "--priority", "1"], NOT_FOUND, "no job 99"),
    (["rm", "2"], FAILED, "has not ended"),
    (["rm", "99"], NOT_FOUND, "no job 99"),
    (["pause", "--group", "nope"], NOT_FOUND, "nope"),
    (["gpus", "drain", "9"], NOT_FOUND, "no GPU 9"),
    (["gpus", "remove", "9"], NOT_FOUND, "no GPU 9"),
    (["gpus", "add", "x y"], USAGE, "x y"),
    (["gpus", "add", "4:lots"], USAGE, "lots"),
    (["gpus", "add", "x"], USAGE, "'x' can't be a GPU"),
    (["config", "set", "gpus", "0,a100"], USAGE, "'a100' can't be a GPU"),
    (["gpus", "explode"], USAGE, "explode"),
    (["config", "set", "colour", "red"], NOT_FOUND, "colour"),
    (["config", "set", "grace", "long"], USAGE, "long"),
    (["config", "set", "cpus", "-3"], USAGE, "-3"),
    (["config", "set", "gpus", "0,0"], USAGE, "twice"),
    (["config", "get", "nothing"], NOT_FOUND, "nothing"),
    (["config", "set", "gpus"], USAGE, "VALUE"),
    (["daemon"], USAGE, "start"),
    (["daemon", "stop", "--kill", "--drain"], USAGE, "--drain"),
    (["ls", "--state", "sleeping"], USAGE, "sleeping"),
    (["ls", "--limit", "0"], USAGE, "0"),
    (["completion", "tcsh"], USAGE, "tcsh"),
]


@pytest.mark.parametrize(("words", "code", "says"), CASES, ids=[" ".join(c[0])[:60] for c in CASES])
def test_bad_input_is_one_clear_line_and_the_right_exit_code(
    shared: StokerHome, words: list[str], code: int, says: str
) -> None:
    ran = shared.cli(*words)
    assert ran.out == ""
    assert ran.err.startswith("stoker: ") and ran.err.count("\n") == 1, ran.err
    assert ran.code == code, ran.err
    assert says in ran.err
    assert "Traceback" not in ran.err


def test_a_command_line_of_1_mb_is_refused(shared: StokerHome) -> None:
    ran = shared.cli("add", "--", "echo", *["x" * 100_000] * 11)
    assert ran.code == USAGE and ran.err.count("\n") == 1
    assert "too long" in ran.err and "script" in ran.err


def test_a_word_longer_than_the_system_allows_is_refused(shared: StokerHome) -> None:
    with pytest.raises(Exception, match="too long") as caught:
        shared.submit("echo", "x" * 1_000_000)
    assert getattr(caught.value, "exit_code", None) == USAGE


@pytest.mark.parametrize("place", ["name", "command", "env", "cwd", "id", "verb"])
def test_invalid_utf8_is_refused(shared: StokerHome, place: str) -> None:
    bad = b"caf\xe9"
    words: list[bytes] = {
        "name": [b"add", b"--name", bad, b"--", b"true"],
        "command": [b"add", b"--", b"echo", bad],
        "env": [b"add", b"--env", b"A=" + bad, b"--", b"true"],
        "cwd": [b"add", b"--cwd", bad, b"--", b"true"],
        "id": [b"show", bad],
        "verb": [bad],
    }[place]
    command = [os.fsencode(word) for word in shared.command()]
    done = subprocess.run([*command, *words], env=shared.env, cwd=shared.work, capture_output=True)
    assert done.returncode == USAGE, done
    assert done.stdout == b"" and done.stderr.count(b"\n") == 1, done.stderr
    done.stderr.decode()  # What we print is valid, whatever we were given.


def test_an_environment_variable_that_is_not_utf8_is_left_out_and_named(
    stoker: StokerHome,
) -> None:
    env: dict[bytes, bytes] = {os.fsencode(k): os.fsencode(v) for k, v in stoker.env.items()}
    env[b"BROKEN"] = b"\xff\xfe"
    done = subprocess.run(
        stoker.command("add", "--", "sh", "-c", "echo [$BROKEN]"), env=env, cwd=stoker.work,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0 and b"BROKEN" in done.stderr
    stoker.until_final(1)
    assert stoker.log_of(1) == "[]\n"


def test_a_directory_that_was_removed_is_refused(shared: StokerHome) -> None:
    gone = shared.work / "gone"
    gone.mkdir()
    script = f'cd "{gone}" && rmdir "{gone}" && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *shared.command("add", "--", "true")],
        env=shared.env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == USAGE and done.stderr.count("\n") == 1


def test_no_gpu_at_all_is_told_with_what_to_do(home: StokerHome) -> None:
    home.start()
    ran = home.cli("add", "--", "true")
    assert ran.code == USAGE and ran.err.count("\n") == 1
    for way_out in ("stoker config set gpus", "--on 0,1", "--gpus 0"):
        assert way_out in ran.err
    assert home.cli("add", "--mem", "8G", "--on", "0", "--", "true").code == USAGE


def test_a_home_that_can_not_be_made_is_told(home: StokerHome) -> None:
    blocked = home.root / "file"
    blocked.touch()
    ran = home.cli("ls", env={"STOKER_HOME": str(blocked / "home")})
    assert ran.code == FAILED and ran.err.count("\n") == 1
    ran = home.cli("ls", env={"STOKER_HOME": str(blocked)})
    assert ran.code == FAILED and "not a directory" in ran.err


def test_a_daemon_that_does_not_answer_is_exit_code_4(home: StokerHome) -> None:
    os.makedirs(home.home.root, 0o700)
    # A directory in the place of the socket: nobody will ever answer there.
    os.mkdir(home.home.socket)
    ran = home.cli("ls")
    assert ran.code in (FAILED, UNREACHABLE) and ran.err.count("\n") == 1
    assert Path(home.home.socket).is_dir()


def test_data_is_on_stdout_and_words_are_on_stderr(stoker: StokerHome) -> None:
    ran = stoker.cli("add", "--", "true")
    assert (ran.out, ran.err) == ("1\n", "")
    stoker.until_final(1)
    for words in (["retry", "1"], ["pause"], ["resume"], ["gpus", "drain", "2"],
                  ["config", "set", "grace", "10s"]):  # fmt: skip
        ran = stoker.cli(*words)
        assert ran.code == 0 and ran.out == "" and ran.err.count("\n") == 1, words
