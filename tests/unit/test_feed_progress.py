"""What a feed counts and says, without a daemon."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.cli.feeding.progress import counts, outcome
from stoker.cli.feeding.summary import failures_text, headline, summary_json, unshown
from stoker.cli.feeding.tally import MOST_FAILURES_KEPT, Line, Tally
from stoker.cli.following import Following
from unit.scripted_daemon import Script, ScriptedDaemon


def ended(state: str, reason: str = "", *, final: bool = True) -> dict[str, Any]:
    return {"state": state, "reason": reason, "final": final}


def line(number: int, text: str = "true", *, running: bool = False) -> Line:
    one = Line(number, text, f"p{number}")
    one.job_id = 100 + number
    one.state = "running" if running else "waiting"
    one.started_at = 0.0 if running else None
    return one


def failed(tally: Tally, one: Line, reason: str = "exit code 3") -> None:
    tally.taken += 1
    tally.end(one, ended("failed", reason))


def test_the_counts_add_up_at_every_moment() -> None:
    tally = Tally()
    tally.expected = 4
    assert counts(tally) == "0 done, 0 failed, 0 running, 4 waiting"
    tally.taken = 4
    tally.started()
    tally.started()
    assert counts(tally) == "0 done, 0 failed, 2 running, 2 waiting"
    assert not tally.end(line(1, running=True), ended("succeeded"))
    assert tally.end(line(2, running=True), ended("failed"))
    assert counts(tally).startswith("1 done, 1 failed, 0 running, 2 waiting, about ")


def test_no_time_is_foretold_before_anything_has_ended() -> None:
    tally = Tally()
    tally.taken = 10
    tally.started()
    assert tally.left_s() is None


def test_what_succeeded_in_an_earlier_run_neither_waits_nor_counts_for_the_pace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(
        "stoker.cli.feeding.tally.time", SimpleNamespace(monotonic=lambda: clock.now)
    )
    tally = Tally()
    tally.expected, tally.taken, tally.before = 10, 6, 3
    for number in (1, 2):
        tally.started()
        clock.now += 5.0
        tally.end(line(number, running=True), ended(("succeeded", "failed")[number - 1]))
    tally.started()
    assert (tally.running, tally.waiting) == (1, 4)
    # Two took ten seconds, however they ended; five are left.
    assert tally.left_s() == 25.0


def test_what_the_feed_calls_off_is_no_failure() -> None:
    tally = Tally()
    tally.taken = 3
    waiting, running, by_hand = line(1), line(2, running=True), line(3)
    waiting.called_off = running.called_off = True
    tally.started()
    assert not tally.end(waiting, ended("cancelled"))
    assert not tally.end(running, ended("cancelled"))
    assert not tally.end(by_hand, ended("cancelled"))
    assert (tally.not_run, tally.stopped, tally.failed) == (1, 1, 1)
    assert tally.running == tally.waiting == 0


def test_a_failure_is_told_with_its_line_and_reason() -> None:
    told = outcome(line(7, running=True), {**ended("failed", "exit code 3"), "ran_ms": 65_000})
    assert told.startswith("job 107 failed after 1m 05s"), "as long as it ran, not as we waited"
    assert told.endswith(", line 7: exit code 3")
    again = outcome(line(7), ended("failed", "exit code 3", final=False))
    assert again == "job 107 failed, line 7: exit code 3; it will be tried again"


def test_a_batch_tells_how_long_a_job_ran_and_not_how_long_it_was_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    following = Following(["g"])
    following._titles = {7: "train"}
    following._take({"event": "started", "id": 7, "attempt": 1, "gpus": ["0"]})
    following._take({"event": "ended", "id": 7, "final": True, **ended("failed"), "ran_ms": 65_000})
    assert "job 7, train: failed after 1m 05s on GPU 0" in capsys.readouterr().err


def test_a_batch_tells_how_long_a_job_ran_whose_end_it_did_not_hear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    ran = {"id": 7, "state": "failed", "exit_code": 3, "reason": "exit code 3"}
    times = {"started_at_ms": 10_000, "ended_at_ms": 75_000}
    never = {"id": 8, "state": "cancelled", "started_at_ms": None, "ended_at_ms": 75_000}
    script: Script = {"follow": {}, "list": {"jobs": [ran | times, never]}}
    with ScriptedDaemon(tmp_path, script), Following(["g"]) as following:
        following._titles = {7: "train", 8: "test", 9: "removed"}
        following._catch_up()
    assert [job["ran_ms"] for job in following._jobs.values()] == [65_000, None, None]
    told = capsys.readouterr().err
    assert "job 7, train: failed (exit code 3) after 1m 05s" in told
    assert "job 8, test: cancelled\n" in told and "job 9, removed: lost" in told


def test_a_job_that_will_be_tried_again_waits_and_does_not_run() -> None:
    following = Following(["g"])
    following._titles = {7: "train", 8: "test"}
    for job_id in following._titles:
        following._take({"event": "started", "id": job_id, "attempt": 1, "gpus": ["0"]})
    following._take({"event": "ended", "id": 7, **ended("failed", final=False), "ran_ms": 5})
    assert following._progress(0.0) == "0/2 done, 0 failed, 1 running, 1 waiting"


def test_the_summary_shows_what_failed_with_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old\n" * 20_000 + b"50%\r100%\n\x1b]0;title\x07the end\nTraceback: no\n")
    tally = Tally()
    failed(tally, line(2, "python train.py"))
    jobs = {102: {"state": "failed", "gpus": ["1"], "log": str(log), "err_log": None}}
    text = failures_text(tally.failures, jobs)
    assert "102" in text and "python train.py" in text and "exit code 3" in text
    assert text.endswith(
        "the last output of job 102:\n  old\n  old\n  100%\n  the end\n  Traceback: no\n"
    )


def test_a_log_of_one_huge_line_is_not_read_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(5 * 2**30)  # 5 GiB of zeros that take no room
    tally = Tally()
    failed(tally, line(1))
    jobs: dict[int, dict[str, Any]] = {
        101: {"state": "failed", "gpus": [], "log": str(log), "err_log": None}
    }
    assert len(failures_text(tally.failures, jobs)) < 2000


def test_thousands_of_failures_are_counted_and_not_all_shown() -> None:
    tally = Tally()
    for number in range(1, MOST_FAILURES_KEPT + 500):
        failed(tally, line(number, "x" * 100_000))
    assert tally.failed == MOST_FAILURES_KEPT + 499
    assert len(tally.failures) == MOST_FAILURES_KEPT
    assert all(len(failure.text) <= 2000 for failure in tally.failures)
    assert failures_text(tally.failures, {}).count("\n") < 50
    assert "1479 more" in unshown(tally, "g")
    assert "1499 failed" in headline("g", tally, 1.0)


def test_the_summary_for_scripts_has_a_schema_and_every_failure() -> None:
    tally = Tally()
    failed(tally, line(2, "false"))
    found = summary_json("g", tally, {102: {"exit_code": 1, "log": "/x"}})
    assert found["schema"] == 1
    assert found["failures"] == [
        {
            "id": 102, "line": 2, "command": "false", "state": "failed",
            "reason": "exit code 3", "exit_code": 1, "log": "/x",
        }
    ]  # fmt: skip
