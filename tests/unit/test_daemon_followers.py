"""What those hear who follow a group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from stoker.core import events as ev
from stoker.core.model import Exit, Need, Terms
from stoker.core.state import State
from stoker.daemon.followers import Followers
from stoker.daemon.loop import TurnLoop
from stoker.daemon.server import Connection

NOW_MS = 1_000


class Listener:
    """A client of the daemon, as far as it is told something."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.on_close: list[Any] = []

    def tell(self) -> None:
        pass

    def take_more(self) -> None:
        pass

    def tell_all(self, lines: list[dict[str, Any]]) -> None:
        self.heard += lines


def lines_after(*events: ev.Event) -> list[dict[str, Any]]:
    """What a follower of group "a" is told after a turn with these events."""
    state = State(NOW_MS)
    state.apply(ev.GpuAdded(NOW_MS, "0", None))
    for job_id in (1, 2, 3):
        state.apply(ev.JobSubmitted(NOW_MS, job_id, Need(), Terms(), group="a"))
    state.apply(ev.AttemptPlaced(NOW_MS, 1, 1, ("0",)))
    state.take_change()
    for event in events:
        state.apply(event)
    engine = SimpleNamespace(committed=state.take_change())
    turn_loop = cast(TurnLoop, SimpleNamespace(engine=engine, state=state))
    listener = Listener()
    followers = Followers(turn_loop, "/attempts")
    followers.follow("a", cast(Connection, listener))
    followers.tell()
    for line in listener.heard:
        assert line["event"] == "ended" or line["gpus"] == ["0"]
    return listener.heard


def heard_after(*events: ev.Event) -> list[tuple[str, int, int]]:
    """The same in short."""
    return [(line["event"], line["id"], line["attempt"]) for line in lines_after(*events)]


def test_the_end_of_one_is_told_before_the_start_of_the_next_in_its_place() -> None:
    heard = heard_after(
        ev.AttemptExited(NOW_MS, 1, 1, Exit(code=0)), ev.AttemptPlaced(NOW_MS, 2, 1, ("0",))
    )
    assert heard == [("ended", 1, 1), ("started", 2, 1)]


def test_one_that_started_and_ended_within_a_turn_is_told_to_have_started() -> None:
    heard = heard_after(
        ev.AttemptExited(NOW_MS, 1, 1, Exit(code=0)),
        ev.AttemptPlaced(NOW_MS, 2, 1, ("0",)),
        ev.AttemptExited(NOW_MS, 2, 1, Exit(code=0)),
        ev.AttemptPlaced(NOW_MS, 3, 1, ("0",)),
    )
    assert heard == [("ended", 1, 1), ("started", 2, 1), ("ended", 2, 1), ("started", 3, 1)]


def test_an_end_tells_how_long_the_attempt_ran() -> None:
    [line] = lines_after(
        ev.AttemptStarted(NOW_MS + 500, 1, 1, 4711),
        ev.AttemptExited(NOW_MS + 3_500, 1, 1, Exit(code=0)),
    )
    assert line["ran_ms"] == 3_000
    [line] = lines_after(ev.JobCancelled(NOW_MS + 9_000, 2))
    assert line["ran_ms"] is None, "it never ran"
