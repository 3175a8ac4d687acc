"""`stoker feed` with a real daemon: lines become jobs as they come, and are seen through."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from feed_process import ALONE, UNTIL, FeedProcess, until_lines
from stoker_home import StokerHome
from waiting import eventually


def commands_file(stoker: StokerHome, *lines: str, name: str = "gpu_commands.txt") -> Path:
    path = stoker.work / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def ran(stoker: StokerHome) -> list[str]:
    path = stoker.work / "ran.txt"
    return path.read_text().splitlines() if path.exists() else []


# ---------------------------------------------------------------------- what runs, and where


def test_a_file_on_stdin_runs_on_the_gpus_named_without_any_set_up(home: StokerHome) -> None:
    lines = [ALONE.format(number) for number in range(9)]
    commands_file(home, *lines)
    with (home.work / "gpu_commands.txt").open("rb") as stdin:
        with FeedProcess(home, "--on", "0,1,2", stdin=stdin) as feed:
            assert feed.wait() == 0, feed.err
        assert feed.process.stdin is None
    found = ran(home)
    assert sorted(line.split()[1] for line in found) == [str(number) for number in range(9)]
    assert {line.split()[0] for line in found} == {"0", "1", "2"}
    assert not (home.work / "clashes.txt").exists()


def test_a_file_can_be_named(reused: StokerHome) -> None:
    commands_file(reused, "echo $CUDA_VISIBLE_DEVICES > where.txt")
    done = reused.cli("feed", "--on", "2", "gpu_commands.txt")
    assert done.code == 0, done
    assert done.out == ""
    assert (reused.work / "where.txt").read_text() == "2\n"


def test_each_line_starts_as_soon_as_it_arrives(reused: StokerHome) -> None:
    with FeedProcess(reused, "--on", "0,1,2") as feed:
        for number in range(3):
            feed.write(f"echo {number} >> ran.txt")
            until_lines(reused.work / "ran.txt", number + 1)
        assert feed.process.poll() is None
        feed.end_of_input()
        assert feed.wait() == 0
    assert "3 succeeded" in feed.err


def test_the_tail_of_a_queue_file_is_fed_line_by_line(reused: StokerHome) -> None:
    queue = reused.work / "gpu.queue"
    queue.write_text("echo old >> ran.txt\n")
    stoker_feed = " ".join(reused.command("feed", "--on", "0,1,2"))
    tail = "sh -c 'echo $$ > tail.pid; exec tail -f -n 0 gpu.queue'"
    words = ["sh", "-c", f"{tail} | {stoker_feed}"]
    with FeedProcess(reused, command=words, stdin=None) as feed:
        feed.until_said("go into the group")
        eventually(lambda: _has_open(reused.work / "tail.pid", queue), "tail follows the file")
        for text in ("echo one | tr a-z A-Z >> ran.txt", "echo two && echo three >> ran.txt"):
            with queue.open("a") as file:
                file.write(text + "\n")
        assert set(until_lines(reused.work / "ran.txt", 2)) == {"ONE", "three"}
        os.kill(int((reused.work / "tail.pid").read_text()), 15)
        assert feed.wait() == 0, feed.err
    assert "2 succeeded" in feed.err


def _has_open(pid_file: Path, path: Path) -> bool:
    try:
        pid = int(pid_file.read_text())
        fds = Path(f"/proc/{pid}/fd")
        return any(os.readlink(fd) == str(path) for fd in fds.iterdir())
    except (OSError, ValueError):
        return False


def test_lines_have_the_whole_shell(reused: StokerHome) -> None:
    commands_file(
        reused,
        "# a comment, then an empty line",
        "",
        "echo a b | tr ' ' '\\n' > pipe.txt && echo done >> pipe.txt",
        "echo 'it''s' \"$HOME\" > quotes.txt; false || echo rescued >> quotes.txt",
        'echo "ä€😀 100% {x} {} %d" > "größe %s {}.txt"',
        "python3 -c 'print(1)' \\",
        "   > joined.txt",
        "<<<",
        "for i in 1 2; do",
        "  echo $i  # each",
        "done > block.txt",
        ">>>",
    )
    done = reused.cli("feed", "gpu_commands.txt")
    assert done.code == 0, done
    work = reused.work
    assert (work / "pipe.txt").read_text() == "a\nb\ndone\n"
    assert (work / "quotes.txt").read_text() == f"its {reused.env['HOME']}\nrescued\n"
    assert (work / "größe %s {}.txt").read_text() == "ä€😀 100% {x} {} %d\n"
    assert (work / "joined.txt").read_text() == "1\n"
    assert (work / "block.txt").read_text() == "1\n2\n"
    assert len(reused.jobs()) == 5


def test_the_options_of_add_count_for_every_line(reused: StokerHome) -> None:
    commands_file(reused, "echo $CUDA_VISIBLE_DEVICES $X >> ran.txt", "true")
    done = reused.cli(
        "feed", "--gpus", "2", "--on", "1-3", "--name", "mine", "--group", "g", "--priority", "3",
        "--retries", "1", "--time-limit", "1h", "--env", "X=y", "gpu_commands.txt",
    )  # fmt: skip
    assert done.code == 0, done
    for job in reused.jobs().values():
        assert (job["name"], job["group"], job["priority"], job["retries"]) == ("mine", "g", 3, 1)
        assert job["need"]["gpus"] == 2 and job["need"]["on"] == ["1", "2", "3"]
        assert job["time_limit_ms"] == 3_600_000
    [seen] = ran(reused)
    assert seen.endswith(" y") and len(seen.split()[0].split(",")) == 2


def test_so_many_lines_share_a_gpu_as_max_per_gpu_says(reused: StokerHome) -> None:
    # Each line waits for the others: only if three run on one GPU at once do they ever end.
    together = (
        "touch here-$STOKER_JOB_ID; until [ $(ls here-* | wc -l) -ge 3 ]; do sleep 0.02; done"
    )
    commands_file(reused, *[together] * 3)
    done = reused.cli("feed", "--on", "1", "--max-per-gpu", "3", "gpu_commands.txt")
    assert done.code == 0, done
    assert {tuple(job["gpus"]) for job in reused.jobs().values()} == {("1",)}


def test_a_feed_takes_no_gpu_that_another_front_end_holds(reused: StokerHome) -> None:
    other = reused.add("--on", "0", "--", UNTIL.format("other-may-end"))
    reused.until_state(other, "running")
    commands_file(reused, *["echo $CUDA_VISIBLE_DEVICES >> ran.txt"] * 6)
    with FeedProcess(reused, "--on", "0,1", "gpu_commands.txt") as feed:
        assert feed.wait() == 0
    assert set(ran(reused)) == {"1"}
    (reused.work / "other-may-end").touch()
    reused.until_final(other)


# ---------------------------------------------------------------------- what is said


def test_what_failed_is_summed_up_with_its_last_words_and_the_exit_code_is_1(
    reused: StokerHome,
) -> None:
    commands_file(
        reused,
        "echo fine",
        "for i in 1 2 3 4 5 6 7; do echo line $i; done; echo 'no such file' >&2; exit 3",
        "kill -9 $$",
    )
    done = reused.cli("feed", "gpu_commands.txt")
    assert done.code == 1
    assert done.out == ""
    assert "failed" in done.err and "exit code 3" in done.err
    assert "  line 4\n  line 5\n  line 6\n  line 7\n  no such file\n" in done.err
    assert "line 3\n" not in done.err
    assert "1 succeeded, 2 failed" in done.err.splitlines()[-1]


def test_without_a_terminal_each_start_and_end_is_a_plain_line(reused: StokerHome) -> None:
    commands_file(reused, "true", "false")
    done = reused.cli("feed", "--on", "0", "gpu_commands.txt")
    assert "\x1b" not in done.err and "\r" not in done.err
    words = [line.split(" after ")[0].split(",")[0] for line in done.err.splitlines()]
    one, two = reused.first_id, reused.first_id + 1
    assert words[1:5] == [
        f"job {one} started on GPU 0: true",
        f"job {one} succeeded",
        f"job {two} started on GPU 0: false",
        f"job {two} failed",
    ]


def test_json_is_the_only_thing_on_stdout(reused: StokerHome) -> None:
    commands_file(reused, "true", "exit 4")
    done = reused.cli("feed", "--json", "--group", "g", "gpu_commands.txt")
    found = json.loads(done.out)
    assert found["schema"] == 1 and found["group"] == "g"
    assert (found["succeeded"], found["failed"]) == (1, 1)
    [failure] = found["failures"]
    assert (failure["line"], failure["exit_code"], failure["command"]) == (2, 4, "exit 4")
    assert Path(failure["log"]).exists()


def test_an_input_without_commands_is_no_error(reused: StokerHome) -> None:
    done = reused.cli("feed", stdin=b"# nothing\n\n")
    assert done.code == 0
    assert "0 succeeded, 0 failed" in done.err
    assert reused.jobs() == {}


def test_a_retried_line_counts_once(reused: StokerHome) -> None:
    commands_file(reused, "mkdir first-time && exit 1; echo ok")
    done = reused.cli("feed", "--retries", "2", "gpu_commands.txt")
    assert done.code == 0, done
    assert "it will be tried again" in done.err
    assert "1 succeeded, 0 failed" in done.err


# ---------------------------------------------------------------------- fail-fast


def test_fail_fast_cancels_the_rest_at_the_first_failure(reused: StokerHome) -> None:
    # The GPU that is free again may go to the next line before anybody can say no.
    commands_file(reused, "sleep 999", UNTIL.format("go") + "; exit 5", *["sleep 999"] * 50)
    with FeedProcess(reused, "--fail-fast", "--on", "0,1", "gpu_commands.txt") as feed:
        feed.until_said(f"job {reused.nth(2)} started")
        (reused.work / "go").touch()
        assert feed.wait() == 1
    assert "0 succeeded, 1 failed" in feed.err.splitlines()[-1]
    states = [job["state"] for job in reused.jobs().values()]
    assert states == ["cancelled", "failed", *["cancelled"] * 50]


def test_fail_fast_does_not_wait_for_lines_that_came_with_one_that_is_refused(
    reused: StokerHome,
) -> None:
    done = reused.cli("feed", "--fail-fast", "-", stdin=b"bad\0line\ntrue\ntrue\n")
    assert done.code == 1
    assert "0 succeeded, 1 failed, 2 not run" in done.err
    assert reused.jobs() == {}


def test_fail_fast_takes_no_more_of_an_input_that_goes_on(reused: StokerHome) -> None:
    with FeedProcess(reused, "--fail-fast") as feed:
        feed.write("false")
        assert feed.wait() == 1


def test_a_feed_keeps_going_unless_told(reused: StokerHome) -> None:
    commands_file(reused, "false", "echo on >> ran.txt")
    assert reused.cli("feed", "--on", "0", "gpu_commands.txt").code == 1
    assert reused.cli("feed", "--on", "0", "--keep-going", "gpu_commands.txt").code == 1
    assert ran(reused) == ["on", "on"]


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (["no-such-file"], b"", "can't read no-such-file"),
        (["."], b"", "is a directory"),
        (["a", "b"], b"", "one argument too many"),
        (["--gpus", "x"], b"true\n", "not a number of GPUs"),
        (["--gpus", "9"], b"true\n", "9 GPUs"),
        (["--on", "17"], b"true\n", "no GPU 17"),
        (["--keep-going", "--fail-fast"], b"true\n", "exclude each other"),
        (["--resume"], b"true\n", "--group"),
        (["--hold"], b"true\n", "unknown option"),
        (["--max-per-gpu", "2", "--gpus", "2"], b"true\n", "--max-per-gpu"),
    ],
)
def test_bad_input_is_one_clear_line_and_nothing_is_queued(
    reused: StokerHome, words: list[str], stdin: bytes, said: str
) -> None:
    done = reused.cli("feed", *words, stdin=stdin)
    assert done.code == 2, done
    complaint = [line for line in done.err.splitlines() if said in line]
    assert len(complaint) == 1 and complaint[0].startswith("stoker: ") and ";" in complaint[0]
    assert "Traceback" not in done.err
    assert reused.jobs() == {}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b"echo \xff\xfe", "not valid UTF-8"),
        (b"echo a\0b", "NUL"),
        (b"echo " + b"x" * 200_000, "too long"),
        (b"<<<\necho a", "never ends"),
        (b">>>", "never began"),
        (b"echo a \\", "backslash"),
    ],
)
def test_one_bad_line_in_a_file_means_that_nothing_was_queued(
    reused: StokerHome, bad: bytes, said: str
) -> None:
    path = reused.work / "bad.txt"
    path.write_bytes(b"true\n" * 5000 + bad + b"\n")
    done = reused.cli("feed", "bad.txt")
    assert done.code == 2, done
    [complaint] = done.err.splitlines()
    assert said in complaint and "bad.txt, line 5001" in complaint
    assert reused.jobs() == {}


def test_a_bad_line_from_a_pipe_is_passed_over_and_counts_as_failed(reused: StokerHome) -> None:
    done = reused.cli("feed", stdin=b"echo a >> ran.txt\necho \xff\necho b >> ran.txt\n")
    assert done.code == 1
    assert "line 2 is skipped: it is not valid UTF-8" in done.err
    assert sorted(ran(reused)) == ["a", "b"]


def test_a_closed_stdin_is_told_in_one_line(reused: StokerHome) -> None:
    words = ["sh", "-c", " ".join(reused.command("feed")) + " <&-"]
    with FeedProcess(reused, command=words, stdin=None) as feed:
        assert feed.wait() == 2
    assert feed.err == (
        "stoker: stdin is closed, so there is nothing to read; name a file, or redirect its input\n"
    )


def test_help_has_an_example(reused: StokerHome) -> None:
    done = reused.cli("feed", "--help")
    assert done.code == 0
    assert "stoker feed --on 0,1,2 < gpu_commands.txt" in done.out
    assert "tail -f -n 0 gpu.queue | stoker feed --on 0,1,2" in done.out


def test_a_named_pipe_is_read_once_somebody_writes_to_it(reused: StokerHome) -> None:
    os.mkfifo(reused.work / "fifo")
    with FeedProcess(reused, "fifo", stdin=subprocess.DEVNULL) as feed:
        feed.until_said("go into the group")
        (reused.work / "fifo").write_text("echo 1 >> ran.txt\n")
        assert feed.wait() == 0
    assert ran(reused) == ["1"]
