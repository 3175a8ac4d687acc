"""Since when a job waits, and what of its past is still to be shown."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.store.views import without_past

ATTEMPT = {"gpus": "[]", "started_at_ms": None, "pid": None, "place": "77", "mem_mib": None}


def row(state: str, attempt: int, **moments_ms: int | None) -> dict[str, Any]:
    """A job that was submitted at 1,000; its last attempt as `moments_ms` say."""
    found = {"state": state, "attempt": attempt, "submitted_at_ms": 1_000, "ended_at_ms": None}
    past = {"queued_again_at_ms": None, "attempt_ended_at_ms": None, "placed_at_ms": None}
    return found | ATTEMPT | past | moments_ms


@pytest.mark.parametrize(
    ("seen", "since_ms"),
    [
        (row("waiting", 0), 1_000),
        (row("held", 0), 1_000),
        (row("waiting", 1, placed_at_ms=1_100, attempt_ended_at_ms=5_000), 5_000),
        (row("waiting", 1, attempt_ended_at_ms=5_000, queued_again_at_ms=9_000), 9_000),
        # At the cluster it waits with an attempt: the first time since it was submitted,
        (row("submitted", 1, placed_at_ms=1_100), 1_000),
        # and then since it was handed over anew, after the end of the attempt before.
        (row("submitted", 2, placed_at_ms=7_000), 7_000),
        (row("submitted", 2, placed_at_ms=9_500, queued_again_at_ms=9_000), 9_500),
        (row("running", 2, placed_at_ms=7_000), None),
        (row("succeeded", 1, placed_at_ms=1_100, attempt_ended_at_ms=5_000), None),
    ],
)
def test_a_job_waits_since_it_was_last_queued(seen: dict[str, Any], since_ms: int | None) -> None:
    without_past(seen)
    assert seen["queued_at_ms"] == since_ms


def test_a_job_at_the_cluster_keeps_the_place_of_its_attempt_and_a_queued_one_has_none() -> None:
    there, here = row("submitted", 2, placed_at_ms=7_000), row("waiting", 1, placed_at_ms=7_000)
    for one in (there, here):
        without_past(one)
    assert (there["place"], there["placed_at_ms"]) == ("77", 7_000)
    assert (here["place"], here["placed_at_ms"]) == (None, None)
