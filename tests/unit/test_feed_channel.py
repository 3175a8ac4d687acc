"""A feed and a daemon that answers as the real one seldom does: full, gone, or unwilling."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.cli.feeding import channel
from stoker.cli.feeding.feed import Feed
from stoker.cli.feeding.tally import Line
from unit.cli_run import stoker
from unit.scripted_daemon import GONE, Answer, Script, ScriptedDaemon
from waiting import PATIENCE_S

FULL: Answer = {
    "ok": False,
    "error": {"code": "unavailable", "message": "the disk is full", "hint": "make room"},
}
REFUSED: Answer = {"ok": False, "error": {"code": "usage", "message": "no such GPU", "hint": "x"}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(channel, "_TRY_AGAIN_S", 0.01)
    (tmp_path / "c.txt").write_text("one\ntwo\n")
    return tmp_path


def ended(job_id: int, state: str = "succeeded") -> Answer:
    return {"event": "ended", "id": job_id, "attempt": 1, "state": state, "final": True,
            "exit_code": 0, "signal": None, "reason": None}  # fmt: skip


def jobs_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The jobs that a submission asks for: what they share, and what each has for itself."""
    [shared] = request["jobs"]
    return [shared | own for own in request["each"]]


def taken(request: dict[str, Any]) -> list[Answer]:
    """The submission is taken, and every job of it succeeds at once."""
    ids = [int(job["params"]["line"]) for job in jobs_of(request)]
    return [{"ids": ids}, *(ended(job_id) for job_id in ids)]


def in_turn(*answers: Any) -> Callable[[dict[str, Any]], Any]:
    """A different answer each time, the last one ever after."""
    rest = list(answers)

    def answer(request: dict[str, Any]) -> Any:
        one = rest.pop(0) if len(rest) > 1 else rest[0]
        return one(request) if callable(one) else one

    return answer


def fed(
    capsys: pytest.CaptureFixture[str], home: Path, script: Script, *words: str
) -> tuple[int, str, ScriptedDaemon]:
    with ScriptedDaemon(home, {"follow": {}, "list": {"jobs": [], "total": 0}, **script}) as daemon:
        ran = stoker(capsys, "feed", *words, "c.txt")
    return ran.code, ran.err, daemon


def test_a_submission_that_can_t_be_saved_now_is_repeated_until_it_is_taken(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    script: Script = {"submit": in_turn(FULL, FULL, FULL, taken)}
    code, err, daemon = fed(capsys, home, script)
    assert code == 0
    assert err.count("the disk is full") == 1
    tokens = [request["token"] for request in daemon.sent("submit")]
    assert len(tokens) == 4 and len(set(tokens)) == 1


def test_a_submission_that_was_cut_off_is_repeated_with_its_token(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    def known(request: dict[str, Any]) -> Answer:
        found = {p: {"id": n, "state": "succeeded"} for n, p in enumerate(request["points"], 1)}
        return {"points": found}

    # Taken, and its jobs over, before the answer: nobody will ever hear of their end again.
    script: Script = {"submit": in_turn([GONE], {"ids": [1, 2]}), "points": known}
    code, err, daemon = fed(capsys, home, script)
    assert code == 0, err
    first, second = daemon.sent("submit")
    assert first == second
    assert len(daemon.sent("follow")) == 2


def test_what_the_daemon_refuses_is_told_in_one_line_with_its_exit_code(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    code, err, _ = fed(capsys, home, {"submit": REFUSED})
    assert code == 2
    assert err.splitlines()[-1] == "stoker: no such GPU; x"


def test_what_was_queued_before_a_refusal_is_still_seen_through(
    capsys: pytest.CaptureFixture[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.cli.feeding.feed._MOST_IN_A_MESSAGE", 1)
    script: Script = {"submit": in_turn(taken, REFUSED)}
    code, err, _ = fed(capsys, home, script)
    assert code == 2
    assert "1 succeeded, 0 failed, 1 not run" in err


def test_each_line_goes_to_the_login_shell_with_its_point_and_number(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    code, _, daemon = fed(capsys, home, {"submit": taken}, "--on", "0,1", "--group", "g")
    assert code == 0
    [request] = daemon.sent("submit")
    assert [job["shell"] for job in jobs_of(request)] == ["one", "two"]
    assert [job["params"]["line"] for job in jobs_of(request)] == [1, 2]
    assert {job["group"] for job in jobs_of(request)} == {"g"}
    assert {tuple(job["on"]) for job in jobs_of(request)} == {("0", "1")}
    assert len({job["point"] for job in jobs_of(request)}) == 2
    assert daemon.sent("follow") == [{"group": "g"}]


def test_events_of_other_jobs_in_the_group_are_not_ours(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    def with_strangers(request: dict[str, Any]) -> list[Answer]:
        return [*taken(request)[:1], ended(77, "failed"), *taken(request)[1:]]

    code, err, _ = fed(capsys, home, {"submit": with_strangers})
    assert code == 0
    assert "job 77" not in err


@pytest.fixture
def next_is_made(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Wait until the first of three submissions is made, then until the second is, and so on."""
    (home / "c.txt").write_text("one\ntwo\nthree\n")
    monkeypatch.setattr("stoker.cli.feeding.feed._MOST_IN_A_MESSAGE", 1)
    made = threading.Semaphore(0)
    real = Feed._submission

    def counted(feed: Feed) -> tuple[list[Line], bytes]:
        made.release()
        return real(feed)

    monkeypatch.setattr(Feed, "_submission", counted)

    def wait() -> None:
        assert made.acquire(timeout=PATIENCE_S)

    return wait


def test_the_next_submission_is_made_while_the_daemon_is_at_one(
    capsys: pytest.CaptureFixture[str], home: Path, next_is_made: Callable[[], None]
) -> None:
    def slowly(request: dict[str, Any]) -> list[Answer]:
        if jobs_of(request)[0]["shell"] == "one":
            next_is_made()
        if jobs_of(request)[0]["shell"] != "three":
            next_is_made()  # The one after this, of which nobody has heard yet.
        return taken(request)

    code, err, daemon = fed(capsys, home, {"submit": slowly})
    assert code == 0, err
    assert [jobs_of(one)[0]["shell"] for one in daemon.sent("submit")] == ["one", "two", "three"]


def test_a_submission_that_is_made_but_not_given_is_called_off_with_the_rest(
    capsys: pytest.CaptureFixture[str], home: Path, next_is_made: Callable[[], None]
) -> None:
    def unwilling(request: dict[str, Any]) -> Answer:
        next_is_made()
        next_is_made()
        return REFUSED

    code, err, daemon = fed(capsys, home, {"submit": unwilling})
    assert code == 2 and len(daemon.sent("submit")) == 1
    assert "0 succeeded, 0 failed, 3 not run" in err


def test_an_interrupted_feed_does_not_give_the_submission_that_it_has_made(
    capsys: pytest.CaptureFixture[str], home: Path, next_is_made: Callable[[], None]
) -> None:
    def interrupted(request: dict[str, Any]) -> list[Answer]:
        next_is_made()
        next_is_made()
        os.kill(os.getpid(), signal.SIGINT)
        return taken(request)

    # Whether its end is heard before anybody can ask for it to be held is a matter of moments.
    script: Script = {"submit": interrupted, "hold": {"ids": []}, "points": {"points": {}}}
    code, err, daemon = fed(capsys, home, script)
    assert code == 130 and len(daemon.sent("submit")) == 1
    assert "1 succeeded, 0 failed, 2 not run" in err


def test_a_message_has_no_more_bytes_than_is_good_for_the_daemon(
    capsys: pytest.CaptureFixture[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.cli.feeding.feed._MOST_BYTES_IN_A_MESSAGE", 3)
    code, err, daemon = fed(capsys, home, {"submit": taken})
    assert code == 0, err
    assert [[job["shell"] for job in jobs_of(one)] for one in daemon.sent("submit")] == [
        ["one"], ["two"],
    ]  # fmt: skip


def test_lines_are_left_in_the_input_while_enough_are_under_way(
    capsys: pytest.CaptureFixture[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "c.txt").write_text("".join(f"{n} {'x' * 1000}\n" for n in range(1, 501)))
    monkeypatch.setattr("stoker.cli.feeding.feed.MOST_UNDER_WAY", 1)
    under_way: list[int] = []
    real = Feed._read

    def noting(feed: Feed) -> None:
        under_way.append(feed._unqueued + len(feed._jobs))
        real(feed)

    monkeypatch.setattr(Feed, "_read", noting)
    code, err, _ = fed(capsys, home, {"submit": taken})
    assert code == 0, err
    assert len(under_way) > 2 and set(under_way) == {0}


def test_after_a_lost_connection_all_that_may_have_ended_is_asked_about(
    capsys: pytest.CaptureFixture[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "c.txt").write_text("one\ntwo\nthree\n")
    monkeypatch.setattr("stoker.cli.feeding.feed._MOST_IN_A_MESSAGE", 2)
    line_of: dict[str, int] = {}
    real, one_is_left = Feed._wait, threading.Event()

    def noting(feed: Feed, view_s: float | None) -> None:
        if len(feed._jobs) == 1:
            one_is_left.set()
        real(feed, view_s)

    monkeypatch.setattr(Feed, "_wait", noting)

    def taken_in_silence(request: dict[str, Any]) -> list[Answer]:
        jobs = jobs_of(request)
        line_of.update({job["point"]: int(job["params"]["line"]) for job in jobs})
        answer: Answer = {"ids": [int(job["params"]["line"]) for job in jobs]}
        return [answer, GONE] if len(line_of) == 3 else [answer]

    def known(request: dict[str, Any]) -> Iterator[Answer]:
        one_is_left.clear()
        yield {"points": {p: {"id": line_of[p], "state": "succeeded"} for p in request["points"]}}
        # What is not asked about is heard of too, so that the feed ends in any case; but only once
        # it has asked for all that it wants to know.
        if len(request["points"]) == 2:
            one_is_left.wait(PATIENCE_S)
            yield ended(3)

    code, err, daemon = fed(capsys, home, {"submit": taken_in_silence, "points": known})
    assert code == 0, err
    assert [len(one["points"]) for one in daemon.sent("points")] == [2, 1]
