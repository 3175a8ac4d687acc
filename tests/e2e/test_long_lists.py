"""A list is as long as somebody can read, however many jobs there are."""

from __future__ import annotations

import json

import pytest

from stoker_home import StokerHome

WAITING, ENDED = 150, 140


@pytest.fixture
def full(stoker: StokerHome) -> StokerHome:
    stoker.call("pause")
    stoker.submit_all([{"argv": ["true"]}], each=[{}] * ENDED)
    stoker.call("cancel", select={"all": True})
    return stoker


def ids(text: str) -> list[int]:
    return [int(line.split()[0]) for line in text.splitlines()[1:]]


def test_ls_shows_a_hundred_jobs_and_says_how_many_more_there_are(full: StokerHome) -> None:
    full.submit_all([{"argv": ["true"]}], each=[{}] * WAITING)
    ran = full.cli("ls")
    shown = ids(ran.out)
    assert len(shown) == 100
    waiting = [job_id for job_id in shown if job_id > ENDED]
    assert waiting == list(range(ENDED + 1, ENDED + 76)), "those that are next"
    assert set(shown) - set(waiting) == set(range(ENDED - 24, ENDED + 1)), "and that ended last"
    assert f"and {WAITING - 75} more" in ran.err


def test_what_waiting_jobs_leave_is_filled_up_with_those_that_ended_last(full: StokerHome) -> None:
    full.submit_all([{"argv": ["true"]}], each=[{}] * 10)
    waiting, ended = range(ENDED + 1, ENDED + 11), range(ENDED - 89, ENDED + 1)
    assert ids(full.stoker("ls")) == [*waiting, *ended]


def test_whoever_asks_for_more_gets_it(full: StokerHome) -> None:
    full.submit_all([{"argv": ["true"]}], each=[{}] * WAITING)
    everything = list(range(1, ENDED + WAITING + 1))
    in_line = everything[ENDED:] + everything[:ENDED]
    assert ids(full.stoker("ls", "--all")) == in_line
    assert ids(full.stoker("ls", "--limit", "1000")) == in_line
    assert ids(full.stoker("ls", "--state", "waiting")) == everything[ENDED:]
    assert [job["id"] for job in json.loads(full.stoker("ls", "--json"))["jobs"]] == everything


def test_a_tree_has_what_failed_above_what_was_skipped_and_json_is_the_same(
    reused: StokerHome,
) -> None:
    failed = reused.add("--group", "g", "--", "false")
    skipped = reused.add("--group", "g", "--after", str(failed), "--", "true")
    reused.until_final(skipped)
    lines = reused.stoker("ls", "--tree", "--group", "g").splitlines()[1:]
    assert [line.split()[:3] for line in lines] == [
        [str(failed), "false", "failed"],
        ["└─", str(skipped), "true"],
    ]
    [alone] = reused.stoker("ls", "--tree", "--state", "skipped", str(skipped)).splitlines()[1:]
    assert f"after {failed}" in alone
    plain = reused.stoker("ls", "--json", "--group", "g")
    assert reused.stoker("ls", "--tree", "--json", "--group", "g") == plain
