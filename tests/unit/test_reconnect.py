"""How a client comes back to a daemon that went away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from stoker.api import reconnect
from stoker.api.client import Client
from stoker.api.reconnect import Reconnection
from stoker.errors import Unavailable, Unreachable


class Gone:
    """A client whose daemon can't be reached so many times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.autostart = True
        self.started: list[bool] = []  # whether each attempt was to start a daemon

    def close(self) -> None:
        pass

    def connect(self) -> None:
        self.started.append(self.autostart)
        if self.times:
            self.times -= 1
            raise Unreachable("there is none")


def back_to(client: Gone) -> tuple[Reconnection, list[str]]:
    said: list[str] = []
    return Reconnection(cast(Client, client), said.append), said


def test_the_pause_grows_up_to_a_bound_and_begins_anew_once_it_is_back() -> None:
    client = Gone(times=20)
    reconnection, _ = back_to(client)
    pauses = []
    while reconnection.attempt() is not None:
        pauses.append(reconnection.pause_s)
    assert pauses[:3] == [0.5, 1.0, 2.0] and max(pauses) == pauses[-1] == 5.0
    assert reconnection.pause_s == 0.25


def test_it_is_said_once_each_time() -> None:
    client = Gone(times=3)
    reconnection, said = back_to(client)
    for losses in (1, 2):
        while reconnection.attempt() is not None:
            pass
        assert len(said) == losses
        client.times = 3


def test_one_that_was_stopped_is_not_started_until_somebody_wants_something() -> None:
    client = Gone(times=4)
    reconnection, said = back_to(client)
    reconnection.lost(Unavailable("it was stopped"))
    reconnection.attempt()
    assert client.started == [False] and client.autostart, "that is for this attempt only"
    assert said == ["the daemon was stopped; waiting for it (`stoker daemon start`)"]
    reconnection.wanted()
    reconnection.attempt()
    assert client.started == [False, True]


def test_nobody_waits_beyond_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(reconnect, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: now))
    reconnection, _ = back_to(Gone(times=1_000))
    assert not reconnection.wait(Unreachable("gone"), deadline=103.3)
    assert now == pytest.approx(103.3)
