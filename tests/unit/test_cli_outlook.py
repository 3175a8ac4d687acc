"""What `stoker add` says of a new job on a terminal: its place, its start, its run time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.cli import outlook
from unit.cli_run import stoker
from unit.scripted_daemon import GONE, Script, ScriptedDaemon

WAITS = {"id": 12, "state": "waiting", "text": "needs 1 GPU, 0 of 1 free"}
MINUTE_MS = 60_000


@pytest.mark.parametrize(
    ("known", "count", "said"),
    [
        ({"jobs_ahead": 3, "starts_at_ms": 40 * MINUTE_MS, "run_ms": 120 * MINUTE_MS + 900,
          "learned_from": 17},
         1, "job 12: 3 jobs ahead, starts in about 40m, runs about 2h (learned from 17 runs)"),
        ({"jobs_ahead": 1, "starts_at_ms": None}, 1, "job 12: 1 job ahead"),
        ({"jobs_ahead": 0, "starts_at_ms": 2_800, "run_ms": 3_100, "learned_from": 1}, 1,
         "job 12: starts in about 3s, runs about 3s (learned from 1 run)"),
        ({"starts_at_ms": 0}, 1, "job 12: starts now"),
        ({"jobs_ahead": 0}, 1, "job 12: needs 1 GPU, 0 of 1 free"),
        ({"state": "running", "text": "it is running on GPU 0"}, 8,
         "job 12, the first of 8: running on GPU 0"),
        ({"jobs_ahead": 1, "run_ms": 1_000, "learned_from": 2, "text": "the queue is paused",
          "reason": {"kind": "QueueIsPaused", "group": None}}, 1,
         "job 12: 1 job ahead, runs about 1s (learned from 2 runs); the queue is paused"),
        ({"jobs_ahead": 0, "text": "the queue is paused", "reason": {"kind": "QueueIsPaused"}}, 1,
         "job 12: the queue is paused"),
        ({"jobs_ahead": 4, "starts_at_ms": 40 * MINUTE_MS, "text": "waits for job 3 to succeed",
          "reason": {"kind": "WaitsForJobs", "job_ids": [3]}}, 1,
         "job 12: 4 jobs ahead, starts in about 40m; waits for job 3 to succeed"),
        ({"jobs_ahead": 4, "starts_at_ms": 120 * MINUTE_MS, "text": "starts in 2h 00m",
          "reason": {"kind": "WaitsForTime", "until_ms": 120 * MINUTE_MS}}, 1,
         "job 12: 4 jobs ahead, starts in about 2h"),
        ({"jobs_ahead": 4, "reason": {"kind": "NeedsGpus"}}, 1, "job 12: 4 jobs ahead"),
        ({"jobs_ahead": 2, "starts_at_ms": 119 * MINUTE_MS + 40_000}, 1,
         "job 12: 2 jobs ahead, starts in about 2h"),
    ],
)  # fmt: skip
def test_what_is_known_is_said_in_one_sentence(
    known: dict[str, Any], count: int, said: str
) -> None:
    assert outlook.sentence({**WAITS, **known}, count, 0) == said


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    monkeypatch.setattr(outlook, "has_terminal", lambda *_: True)


SUBMITTED: Script = {"submit": {"ids": [12]}}


def test_away_from_a_terminal_nothing_more_is_asked(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedDaemon(home, SUBMITTED) as daemon:
        ran = stoker(capsys, "add", "true")
    assert [request["op"] for request in daemon.requests] == ["submit"]
    assert (ran.code, ran.out, ran.err) == (0, "12\n", "")


def test_on_a_terminal_one_question_is_asked_after_the_answer(
    home: Path, capsys: pytest.CaptureFixture[str], terminal: None
) -> None:
    script: Script = {**SUBMITTED, "why": {"jobs": [{**WAITS, "jobs_ahead": 3}]}}
    with ScriptedDaemon(home, script) as daemon:
        ran = stoker(capsys, "add", "true")
        as_json = stoker(capsys, "add", "--json", "true")
    assert [request["op"] for request in daemon.requests] == ["submit", "why", "submit"]
    assert (ran.code, ran.out, ran.err) == (0, "12\n", "job 12: 3 jobs ahead\n")
    assert as_json.err == "", "JSON is for programs"


@pytest.mark.parametrize(
    "answer",
    [GONE, {"jobs": []}, {"ok": False, "error": {"code": "usage", "message": "what is that?"}}],
)
def test_a_question_that_is_not_answered_is_no_trouble_of_the_job(
    home: Path, capsys: pytest.CaptureFixture[str], terminal: None, answer: dict[str, Any]
) -> None:
    with ScriptedDaemon(home, {**SUBMITTED, "why": answer}):
        ran = stoker(capsys, "add", "true")
    assert (ran.code, ran.out, ran.err) == (0, "12\n", "")
