"""Logs: the last lines of any file at once, progress bars collapsed, escapes tamed, following."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.text import loglines
from stoker.text.loglines import Collapser, last_state, start_of_last_lines, tamed
from unit.cli_run import Ran, Terminal, argv, environment, process
from unit.scripted_daemon import ScriptedDaemon, job
from waiting import PATIENCE_S, eventually


def collapsed(*pieces: bytes) -> bytes:
    collapser = Collapser()
    return b"".join(map(collapser.feed, pieces)) + collapser.partial


@pytest.mark.parametrize(
    ("line", "state"),
    [
        (b"plain", b"plain"),
        (b" 10%\r 50%\r100%", b"100%"),
        (b"100%\r", b"100%\r"),
        (b"dos line\r", b"dos line\r"),
        (b"a\r\r\r", b"a\r"),
        (b"\r\rb", b"b"),
        (b"", b""),
    ],
)
def test_a_line_is_shown_in_its_last_state(line: bytes, state: bytes) -> None:
    assert last_state(line) == state


def test_progress_bars_are_collapsed_and_everything_else_is_left_alone() -> None:
    log = b"begin\n 1%\r 2%\r 3%\nnext\ndos\r\n\xff\xfe invalid\n 7%\r 8%"
    assert collapsed(log) == b"begin\n 3%\nnext\ndos\r\n\xff\xfe invalid\n 8%"


@given(st.lists(st.binary(max_size=20) | st.sampled_from([b"\r", b"\n", b"\r\n", b"ab\rcd"])))
def test_a_log_collapses_alike_however_it_is_cut_into_pieces(pieces: list[bytes]) -> None:
    assert collapsed(*pieces) == collapsed(b"".join(pieces))


@given(st.binary(max_size=200).map(lambda data: data.replace(b"\r", b"")))
def test_a_log_without_carriage_returns_is_not_changed_at_all(data: bytes) -> None:
    assert collapsed(data) == data


def test_a_line_of_any_length_is_passed_on_and_never_kept_whole() -> None:
    collapser = Collapser()
    total = 0
    for _ in range(20):
        total += len(collapser.feed(b"x" * 300_000))
        assert len(collapser.partial) <= loglines.MAX_LINE_BYTES
    assert total + len(collapser.partial) == 6_000_000


@pytest.mark.parametrize(
    ("raw", "plain", "coloured"),
    [
        (b"\x1b[1;31mred\x1b[0m", b"red", b"\x1b[1;31mred\x1b[0m"),
        (b"\x1b[2J\x1b[Hgone", b"gone", b"gone"),
        (b"\x1b]0;title\x07x", b"x", b"x"),
        (b"\x1b]8;;http://e\x1b\\link\x1b]8;;\x1b\\", b"link", b"link"),
        (b"\x1bPq...\x1b\\x", b"x", b"x"),
        (b"\x1bcx\x1b", b"x", b"x"),
        (b"\x07\x08a\tb\n", b"a\tb\n", b"a\tb\n"),
        (b"\xc2\x9b31mx", b"31mx", b"31mx"),
        ("größer 火".encode(), "größer 火".encode(), "größer 火".encode()),
        (b"\xff\xfe", b"\xff\xfe", b"\xff\xfe"),
        (b"\x1b[>4;2mx\x1b[?25lx", b"xx", b"xx"),
    ],
)
def test_on_a_terminal_colours_are_kept_and_nothing_else_that_steers_it(
    raw: bytes, plain: bytes, coloured: bytes
) -> None:
    assert tamed(raw, colours=False) == plain
    assert tamed(raw, colours=True) == coloured


@given(
    st.lists(st.sampled_from([b"a", b"bb", b"", b"c" * 5]), max_size=30),
    st.booleans(),
    st.integers(0, 12),
    st.integers(1, 9),
)
def test_the_last_lines_are_found_from_the_end_whatever_the_blocks(
    lines: list[bytes], ended: bool, wanted: int, block: int
) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    whole = data.split(b"\n")
    if whole and whole[-1] == b"":
        whole.pop()
    fd = os.memfd_create("log")
    try:
        os.write(fd, data)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loglines, "BLOCK_BYTES", block)
            start = start_of_last_lines(fd, len(data), wanted)
    finally:
        os.close(fd)
    shown = data[start:].split(b"\n")
    if shown and shown[-1] == b"":
        shown.pop()
    assert shown == whole[max(len(whole) - wanted, 0) :]


# --- the verb ---


def show(log: Path | None, state: str = "running", **fields: Any) -> dict[str, Any]:
    return {"jobs": [job(7, state, log=None if log is None else str(log), **fields)]}


def logs(home: Path, answer: dict[str, Any], *words: str) -> Ran:
    with ScriptedDaemon(home, {"show": answer}):
        return process(home, "logs", "7", *words)


def test_logs_shows_the_last_200_lines_and_says_how_to_see_more(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {n}\n" for n in range(1000)))
    ran = logs(tmp_path, show(log))
    assert ran.out.splitlines() == [f"line {n}" for n in range(800, 1000)]
    assert "--all" in ran.err
    assert logs(tmp_path, show(log), "-n", "3").out == "line 997\nline 998\nline 999\n"
    assert logs(tmp_path, show(log), "-n0").out == ""
    everything = logs(tmp_path, show(log), "--all")
    assert everything.out == log.read_text()
    assert everything.err == ""


def test_a_log_of_2_gb_is_shown_at_once_and_in_little_memory(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        # A hole takes no room on the disk; a line of zeros without an end is the worst there is.
        file.truncate(2 * 1024**3)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + b"".join(b"line %d\n" % n for n in range(10)))

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (300 * 1024**2,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))

    with ScriptedDaemon(tmp_path, {"show": show(log)}):
        for words in (["-n", "5"], []):
            done = subprocess.run(
                argv("logs", "7", *words),
                env=environment(tmp_path),
                capture_output=True,
                timeout=PATIENCE_S,
                preexec_fn=limited,
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.endswith(b"line 8\nline 9\n")


def test_piped_logs_are_collapsed_and_raw_ones_are_untouched(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"1%\r2%\r3%\n\x1b[31mred\x1b[0m\n7%\r8%")
    assert logs(tmp_path, show(log)).out == "3%\n\x1b[31mred\x1b[0m\n8%"
    assert logs(tmp_path, show(log), "--raw").out == "1%\r2%\r3%\n\x1b[31mred\x1b[0m\n7%\r8%"


def test_bytes_that_are_not_utf8_are_passed_through(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\xff\xfe\x00\n")
    with ScriptedDaemon(tmp_path, {"show": show(log)}):
        done = subprocess.run(
            argv("logs", "7"), env=environment(tmp_path), capture_output=True, timeout=PATIENCE_S
        )
    assert done.stdout == b"\xff\xfe\x00\n"


def test_errors_are_shown_where_they_are_kept_apart(tmp_path: Path) -> None:
    log, err = tmp_path / "log", tmp_path / "err"
    log.write_text("out\n")
    err.write_text("err\n")
    assert logs(tmp_path, show(log, err_log=str(err)), "--err").out == "err\n"
    ran = logs(tmp_path, show(log), "--err")
    assert ran.code == 1
    assert "one log" in ran.err


def test_a_job_without_a_log_is_told_in_one_line(tmp_path: Path) -> None:
    for answer in (
        show(None, "waiting"),
        show(tmp_path / "missing"),
        show(tmp_path / "missing", attached=True),
    ):
        ran = logs(tmp_path, answer)
        assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)


def test_several_jobs_of_a_name_mean_the_newest(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("newest\n")
    answer = {"jobs": [job(9, log=str(log)), job(7)]}
    with ScriptedDaemon(tmp_path, {"show": answer}):
        ran = process(tmp_path, "logs", "--name", "x")
    assert ran.out == "newest\n"
    assert "9" in ran.err


def test_following_goes_on_until_the_job_has_ended_and_all_is_printed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\n")
    states = iter(["running", "running"])

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        state = next(states, "succeeded")
        if state == "succeeded":
            log.write_text("one\ntwo\nthree")
        return show(log, state)

    with ScriptedDaemon(tmp_path, {"show": answer}):
        ran = process(tmp_path, "logs", "-f", "7")
    assert (ran.code, ran.out, ran.err) == (0, "one\ntwo\nthree", "")


def test_logs_of_several_jobs_say_on_each_line_which_job_it_is_from(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\nloss 1\nno end")
    (tmp_path / "b").write_bytes(b"\x1b[31mlo\x1b[0mss 2\n")
    jobs = [
        job(8, "succeeded", log=str(tmp_path / "b"), attempts=[]),
        job(7, "succeeded", name="big", log=str(tmp_path / "a"), attempts=[]),
        job(9, "waiting", log=None, attempts=[]),
    ]
    for words in (["7-9"], ["7", "8", "9"], ["--group", "g"]):
        with ScriptedDaemon(tmp_path, {"show": {"jobs": jobs}}) as daemon:
            ran = process(tmp_path, "logs", *words)
        assert ran.out == (
            "[7 big] one\n[7 big] loss 1\n[7 big] no end\n[8] \x1b[31mlo\x1b[0mss 2\n"
        )
        assert ran.err == "stoker: job 9 is waiting and has no log yet\n"
    assert daemon.sent("show") == [{"select": {"group": "g"}}]
    with ScriptedDaemon(tmp_path, {"show": {"jobs": jobs}}):
        found = process(tmp_path, "logs", "7-9", "--grep", "^loss [12]$")
        assert process(tmp_path, "logs", "7-9", "--raw").code == 2
    assert found.out == "[7 big] loss 1\n[8] \x1b[31mlo\x1b[0mss 2\n"


def test_jobs_of_a_group_that_have_not_started_are_one_line_with_their_number(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_text("one\n")
    unstarted = [job(n, "waiting", log=None, attempts=[]) for n in range(8, 608)]
    unstarted += [job(n, "skipped", log=None, attempts=[]) for n in (700, 701)]
    jobs = [job(7, "succeeded", log=str(tmp_path / "a"), attempts=[]), *unstarted]
    said = "stoker: 602 jobs have not started and have no log: 600 waiting, 2 skipped\n"
    for more in ([], ["--grep", "one"]):
        with ScriptedDaemon(tmp_path, {"show": {"jobs": jobs}}):
            ran = process(tmp_path, "logs", "--group", "g", *more)
        assert (ran.out, ran.err) == ("[7] one\n", said)


def test_followed_jobs_that_have_not_started_are_one_line_with_their_number(
    tmp_path: Path,
) -> None:
    story = iter(["waiting", "cancelled"])

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        state = next(story)
        return {"jobs": [job(n, state, log=None, attempts=[]) for n in range(1, 101)]}

    with ScriptedDaemon(tmp_path, {"show": answer}):
        ran = process(tmp_path, "logs", "-f", "--group", "g")
    assert ran.err.splitlines() == [
        "stoker: 100 jobs have not started and have no log: 100 waiting",
        "stoker: 100 jobs have not started and have no log: 100 cancelled",
    ]


def test_grep_looks_at_the_whole_log_unless_told_how_much_of_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("loss 0\n" + "x\n" * 500 + "loss 1\ny")
    assert logs(tmp_path, show(log), "--grep", "loss").out == "loss 0\nloss 1\n"
    assert logs(tmp_path, show(log), "--grep", "loss", "-n", "5").out == "loss 1\n"


def test_ctrl_c_ends_a_search_that_would_not_end_and_keeps_what_was_found(tmp_path: Path) -> None:
    found, hanging = tmp_path / "found", tmp_path / "hanging"
    found.write_text("aaa\n")
    hanging.write_text("a" * 64 + "b\n")
    jobs = [job(7, log=str(found)), job(8, log=str(hanging))]
    with ScriptedDaemon(tmp_path, {"show": {"jobs": jobs}}):
        searching = subprocess.Popen(
            argv("logs", "7-8", "--grep", "(a+)+$"), env=environment(tmp_path),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        stat = Path(f"/proc/{searching.pid}/stat")
        ticks = os.sysconf("SC_CLK_TCK")
        eventually(lambda: int(stat.read_text().split()[13]) > ticks // 2, "it computes")
        searching.send_signal(signal.SIGINT)
        assert searching.communicate(timeout=PATIENCE_S) == (b"[7] aaa\n", b"")
        assert searching.returncode == -signal.SIGINT


def test_jobs_that_ran_are_not_counted_as_not_started(tmp_path: Path) -> None:
    unstarted = [job(n, "waiting", log=None, attempts=[]) for n in (8, 9)]
    ran_without = [job(n, "succeeded", log=None, attempts=[]) for n in (5, 6)]
    with ScriptedDaemon(tmp_path, {"show": {"jobs": [*ran_without, *unstarted]}}):
        ran = process(tmp_path, "logs", "5-9")
    assert ran.err == "stoker: 4 jobs have no log: 2 succeeded, 2 waiting\n"


def test_a_group_is_followed_merged_until_all_have_ended_and_with_jobs_that_join(
    tmp_path: Path,
) -> None:
    paths = {number: tmp_path / str(number) for number in (7, 8)}
    paths[7].write_text("a1\n")
    story = iter([{7: "running"}, {7: "running", 8: "running"}, {7: "succeeded", 8: "failed"}])

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        states = next(story)
        if 8 in states:
            paths[8].write_text("b1\n")
        if states[7] == "succeeded":
            with paths[7].open("a") as log:
                log.write("a2\n")
        return {"jobs": [job(n, said, log=str(paths[n])) for n, said in states.items()]}

    with ScriptedDaemon(tmp_path, {"show": answer}):
        ran = process(tmp_path, "logs", "-f", "--group", "g")
    assert ran.out.splitlines() == ["[7] a1", "[8] b1", "[7] a2"]


def test_following_waits_for_the_start_and_tells_why_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    answers = iter([show(None, "waiting", reason="needs 2 GPUs", attempt=0)] * 3)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        waiting = next(answers, None)
        if waiting is not None:
            return waiting
        log.write_text("started\n")
        return show(log, "succeeded")

    with ScriptedDaemon(tmp_path, {"show": answer}):
        ran = process(tmp_path, "logs", "-f", "7")
    assert ran.out == "started\n"
    assert ran.err == "stoker: job 7 is waiting: needs 2 GPUs\n"


def test_following_goes_on_with_the_next_attempt(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_text("first\n")
    answers = iter(
        [
            show(first, attempt=1),
            show(first, "waiting", attempt=1),
            show(second, attempt=2),
            show(second, "failed", attempt=2),
        ]
    )

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        now = next(answers)
        if now["jobs"][0]["attempt"] == 2:
            second.write_text("second\n")
        return now

    with ScriptedDaemon(tmp_path, {"show": answer}):
        ran = process(tmp_path, "logs", "-f", "7")
    assert ran.out == "first\nsecond\n"
    assert "attempt 2" in ran.err


def test_following_goes_on_without_the_daemon_and_does_not_start_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\n")
    with ScriptedDaemon(tmp_path, {"show": show(log)}):
        follower = subprocess.Popen(
            argv("logs", "-f", "7"), env=environment(tmp_path), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert follower.stdout.readline() == b"one\n"
    try:
        assert b"the daemon is not there" in follower.stderr.readline()
        log.write_text("one\ntwo\n")
        assert follower.stdout.readline() == b"two\n"
        with ScriptedDaemon(tmp_path, {"show": show(log, "succeeded")}):
            assert follower.wait(PATIENCE_S) == 0
    finally:
        follower.kill()
        follower.communicate()


def test_on_a_terminal_a_progress_bar_moves_and_ctrl_c_leaves_the_job_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"begin\n 10%\r 20%")
    with ScriptedDaemon(tmp_path, {"show": show(log)}) as daemon:
        with Terminal(tmp_path, "logs", "-f", "7") as terminal:
            terminal.until(b" 20%")
            with log.open("ab") as file:
                file.write(b"\r 30%")
            terminal.until(b" 30%")
            terminal.type(b"\x03")
            assert terminal.wait() == 130
        assert {request["op"] for request in daemon.requests} == {"show"}
    assert b"begin\r\n" in terminal.screen
    assert b" 10%" not in terminal.screen
    assert b"Traceback" not in terminal.screen


def test_a_follower_that_is_interrupted_is_quiet(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\n")
    with ScriptedDaemon(tmp_path, {"show": show(log)}) as daemon:
        follower = subprocess.Popen(
            argv("logs", "-f", "7"), env=environment(tmp_path), stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        eventually(lambda: len(daemon.requests) > 1, "the follower asks again")
        follower.send_signal(signal.SIGINT)
        assert follower.communicate(timeout=PATIENCE_S)[1] == b""
        assert follower.returncode == 130
