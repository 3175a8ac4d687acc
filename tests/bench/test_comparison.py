"""What got worse than the committed results is found, named and told by the exit code."""

from __future__ import annotations

import pytest

from bench.reports import bulk_at, dispatch_at
from harness.comparison import EXIT_WORSE, changes, exit_code
from harness.measures import Report, measure

NUMBERS = {"dispatch": 1, "bulk": 5}


def test_a_ratio_that_got_worse_by_more_than_a_tenth_is_named() -> None:
    (worse,) = changes(dispatch_at(1.5), dispatch_at(1.7)).values()
    assert worse.noticed
    assert "dispatch: Stoker, 2,000 is worse by 13%" in worse.text


@pytest.mark.parametrize("now", [1.65, 1.5, 1.0])
def test_a_smaller_change_and_one_for_the_better_are_not(now: float) -> None:
    (change,) = changes(dispatch_at(1.5), dispatch_at(now)).values()
    assert not change.noticed


@pytest.mark.parametrize(("now", "noticed"), [(89_000, True), (95_000, False), (200_000, False)])
def test_of_a_rate_less_is_worse(now: float, noticed: bool) -> None:
    (change,) = changes(bulk_at(100_000), bulk_at(now)).values()
    assert change.noticed is noticed


def test_the_peers_are_not_watched() -> None:
    assert list(changes(dispatch_at(1.5), dispatch_at(1.5))) == ["Stoker, 2,000"]


def test_what_was_measured_in_another_way_is_not_compared() -> None:
    assert not changes(None, dispatch_at(9))
    assert not changes(dispatch_at(1.5), dispatch_at(9, quick=True))
    other = Report("dispatch", "", [measure("Stoker, 300", [9], "x")])
    assert not changes(dispatch_at(1.5), other)


def test_a_difference_within_the_noise_of_a_small_number_is_none() -> None:
    def idle(percent: float) -> Report:
        return Report("idle", "", [measure("8 GPUs", [percent], "%", slack=0.1)])

    (change,) = changes(idle(0.05), idle(0.09)).values()
    assert change.worse_by > 0.5 and not change.noticed


def test_a_yardstick_makes_a_slower_machine_look_like_what_it_is() -> None:
    def restart(seconds: float, bare: float) -> Report:
        return Report("restart", "", [measure("1 M", [seconds], "s", yardstick=bare)])

    (change,) = changes(restart(2.0, 0.01), restart(4.0, 0.02)).values()
    assert change.worse_by == pytest.approx(0)


def test_the_exit_code_names_the_row() -> None:
    (one,) = changes(dispatch_at(1.0), dispatch_at(2.0)).values()
    (other,) = changes(bulk_at(100_000), bulk_at(10_000)).values()
    assert exit_code([], NUMBERS) == 0
    assert exit_code([one], NUMBERS) == EXIT_WORSE + 1
    assert exit_code([other, other], NUMBERS) == EXIT_WORSE + 5
    assert exit_code([one, other], NUMBERS) == EXIT_WORSE
