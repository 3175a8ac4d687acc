"""A daemon from before an upgrade: whatever it does not understand, the user is told what to do."""

from __future__ import annotations

import pytest

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
