"""What earlier daemons had going where this one can't look."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker.executors import elsewhere
from stoker.executors.elsewhere import Elsewhere
from stoker.machine import Place

ALPHA = Place("aa", "alpha", "boot-1", "4026531836-1")
BETA = Place("bb", "beta", "boot-2", "4026531836-1")

On = Callable[[Place], None]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> On:
    """Be on that machine from now on."""
    return lambda place: monkeypatch.setattr(elsewhere, "here", lambda: place)


def test_all_that_another_machine_had_going_is_out_of_reach_and_stays_so_by_name(on: On) -> None:
    on(ALPHA)
    first = Elsewhere(None, shared=True)
    assert first.why_gone((1, 1), False) is None
    kept = first.to_remember([(1, 1)])
    on(BETA)
    second = Elsewhere(kept, shared=True)
    assert second.on_another_machine and second.last == ALPHA
    assert "alpha" in (second.why_gone((1, 1), False) or "")
    assert second.found == {(1, 1)}
    kept = second.to_remember([(1, 1)])
    # The next one on this machine: what was given up still is, and what was started here is not.
    third = Elsewhere(kept, shared=True)
    assert not third.on_another_machine and third.to_remember([]) is None
    assert "alpha" in (third.why_gone((1, 1), False) or "")
    assert third.why_gone((2, 1), False) is None and third.why_gone((2, 1), True) is None


def test_what_was_given_up_long_ago_is_nothing_to_give_up_now(on: On) -> None:
    on(ALPHA)
    kept = Elsewhere(None, shared=True).to_remember([])
    on(BETA)
    claimed = Elsewhere(kept, shared=True)
    claimed.why_gone((1, 1), False)
    kept = claimed.to_remember([(1, 1)])
    on(ALPHA)
    assert Elsewhere(kept, shared=True).found == set(), "it has not asked about any"


def test_after_a_restart_a_pid_that_a_client_wrote_down_means_nothing(on: On) -> None:
    on(ALPHA)
    kept = Elsewhere(None, shared=False).to_remember([])
    on(ALPHA._replace(boot="boot-9"))
    again = Elsewhere(kept, shared=False)
    assert not again.on_another_machine
    assert "machine went down" in (again.why_gone((1, 1), True) or "")
    assert again.why_gone((2, 1), False) is None, "its ledger tells"


def test_another_container_of_this_machine_is_told_by_its_ledger(on: On) -> None:
    on(ALPHA)
    kept = Elsewhere(None, shared=True).to_remember([])
    on(ALPHA._replace(namespace="7-7", host="container", machine=""))
    again = Elsewhere(kept, shared=True)
    assert again.why_gone((1, 1), True) is None and again.why_gone((1, 1), False) is None


@pytest.mark.parametrize(
    "text", ["", "null", "{", '{"place": 3}', "[]", '{"place": {"boot": "x"}}']
)
def test_what_can_not_be_understood_is_as_if_nothing_were_kept(text: str) -> None:
    kept = Elsewhere(text, shared=True)
    assert kept.last is None and not kept.on_another_machine and not kept.before_restart
