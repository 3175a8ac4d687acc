"""A daemon from before an upgrade: whatever it does not understand, the user is told what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stoker import __version__
from stoker.api.client import Client
from stoker.api.skew import explained
from stoker.errors import StokerError, Unavailable, UsageError
from stoker_home import StokerHome


@pytest.mark.parametrize(
    ("op", "fields"),
    [
        ("submit", {"jobs": [], "cwd": "/", "env": {}, "of_next_year": 1}),
        ("submit", {"jobs": [{"argv": ["true"], "of_next_year": 1}], "cwd": "/", "env": {}}),
        ("of_next_year", {}),
    ],
)
def test_what_an_older_daemon_does_not_know_is_told_with_the_way_out(
    reused: StokerHome, op: str, fields: dict[str, object]
) -> None:
    with Client(reused.home, autostart=False) as client, pytest.raises(Unavailable) as refused:
        client.call(op, **fields)
    assert "of_next_year" in refused.value.message
    assert "stoker daemon restart" in refused.value.hint
    assert "\n" not in refused.value.message + refused.value.hint


def test_a_daemon_of_before_this_rule_is_understood_too() -> None:
    said = UsageError("the message can't be understood: Object contains unknown field `umask`", "")
    told = explained(said)
    assert "umask" in told.message and "stoker daemon restart" in told.hint


def test_what_is_wrong_for_another_reason_is_left_as_it_was_said() -> None:
    wrong = "the message can't be understood: Expected `int`, got `str` - at `$.jobs[0].gpus`"
    for error in (UsageError(wrong, ""), StokerError("unknown field", "hint")):
        assert explained(error) is error


def test_the_daemon_writes_down_its_protocol_and_version(stoker: StokerHome) -> None:
    assert Path(stoker.home.version).read_text() == f"1 {__version__}\n"
    assert stoker.call("hello")["api"] == 1
    assert stoker.cli("gpus").err == ""


def test_a_daemon_from_before_an_upgrade_is_told_of_once(stoker: StokerHome) -> None:
    Path(stoker.home.version).write_text("1 0.0.9\n")
    first = stoker.cli("gpus")
    assert (first.code, first.err.count("\n")) == (0, 1)
    assert re.search(r"still version 0\.0\.9.*stoker daemon restart", first.err)
    assert stoker.cli("gpus").err == stoker.cli("add", "--", "true", "x").err == ""
    Path(stoker.home.version).write_text("1 0.0.10\n")  # another upgrade, another notice
    assert "0.0.10" in stoker.cli("gpus").err
    assert stoker.cli("daemon", "restart").code == 0
    assert Path(stoker.home.version).read_text() == f"1 {__version__}\n"


def test_a_daemon_that_is_newer_than_the_command_is_no_news(stoker: StokerHome) -> None:
    Path(stoker.home.version).write_text("1 99.0\n")
    assert (stoker.cli("gpus").code, stoker.cli("gpus").err) == (0, "")


@pytest.mark.parametrize(
    ("said", "message"),
    [("0 0.0.1\n", "stoker daemon restart"), ("2 99.0\n", "upgrade stoker-gpu in /")],
)
def test_where_they_can_not_talk_one_line_says_what_to_do(
    said: str, message: str, stoker: StokerHome
) -> None:
    Path(stoker.home.version).write_text(said)
    for words in (["ls"], ["add", "--", "true", "x"]):
        ran = stoker.cli(*words)
        assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert message in ran.err and said.split()[1] in ran.err
    assert stoker.cli("daemon", "status").code == 0
    assert stoker.cli("daemon", "restart").code == 0
    assert stoker.cli("gpus").code == 0


@pytest.mark.parametrize("said", ["", "nonsense", "1", "x y z"])
def test_what_is_no_version_is_no_reason_to_refuse(said: str, stoker: StokerHome) -> None:
    Path(stoker.home.version).write_text(said)
    assert (stoker.cli("gpus").code, stoker.cli("gpus").err) == (0, "")
