"""Orders that are given ahead: each has its own answer, and none is lost with a connection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.api.client import Client, line_of
from stoker.api.paths import Home
from stoker.api.pipeline import Pipeline
from stoker.errors import UsageError
from unit.scripted_daemon import GONE, Script, ScriptedDaemon

REFUSED = {"ok": False, "error": {"code": "usage", "message": "no", "hint": ""}}


def client_of(home: Path) -> Client:
    return Client(Home(str(home)), autostart=False)


def test_answers_come_in_the_order_of_the_orders(tmp_path: Path) -> None:
    script: Script = {"points": {"points": {}}, "submit": {"ids": [7]}}
    with ScriptedDaemon(tmp_path, script), client_of(tmp_path) as client:
        ahead = Pipeline(client)
        ahead.give("points", points=[])
        ahead.give("submit", token="a")
        assert "points" in ahead.answer()
        ahead.give("points", points=[])
        assert ahead.answer()["ids"] == [7]
        assert "points" in ahead.answer()


def test_what_was_under_way_when_the_daemon_left_is_given_again_as_it_was(tmp_path: Path) -> None:
    cuts = [GONE, GONE]

    def submit(request: dict[str, Any]) -> dict[str, Any]:
        return cuts.pop() if cuts else {"ids": [int(request["token"])]}

    script: Script = {"points": {"points": {}}, "submit": submit}
    with ScriptedDaemon(tmp_path, script) as daemon, client_of(tmp_path) as client:
        ahead = Pipeline(client)
        ahead.give("points", points=["a"])
        ahead.give("submit", token="1")
        ahead.give("submit", token="2")
        assert "points" in ahead.answer()
        assert [ahead.answer()["ids"], ahead.answer()["ids"]] == [[1], [2]]
        assert len(daemon.sent("points")) == 1, "what was answered is not asked again"
        assert [one["token"] for one in daemon.sent("submit")][-2:] == ["1", "2"]


def test_after_an_order_that_was_refused_no_answer_is_taken_for_another(tmp_path: Path) -> None:
    script: Script = {"submit": REFUSED, "points": {"points": {}}, "hello": {"pid": 1}}
    with ScriptedDaemon(tmp_path, script), client_of(tmp_path) as client:
        ahead = Pipeline(client)
        ahead.give("submit", token="1")
        ahead.give("points", points=[])
        with pytest.raises(UsageError):
            ahead.answer()
        assert client.call("hello")["pid"] == 1


@pytest.mark.parametrize("count", [1, 10_000])
def test_an_order_is_one_line_whatever_is_in_it(count: int) -> None:
    each = [{"shell": "echo 'ä\n\u2028'", "params": {"lr": 0.1, "n": None}}] * count
    line = line_of("submit", {"each": each, "cwd": "/"})
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line) == {"op": "submit", "each": each, "cwd": "/"}
