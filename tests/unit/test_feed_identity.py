"""By what a feed and its lines are known again, and what keeps two feeds apart."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.cli.feeding.identity import Lock, Points, group_for, last_run
from stoker.errors import Failed
from stoker.quantities import label
from unit.scripted_daemon import ScriptedDaemon, job


def test_the_group_of_a_file_is_always_the_same_and_tells_its_name() -> None:
    assert group_for("/data/commands.txt") == group_for("/data/commands.txt")
    assert group_for("/data/commands.txt") != group_for("/other/commands.txt")
    assert group_for("/data/commands.txt").startswith("feed-commands.txt-")


def test_any_file_name_makes_a_good_group() -> None:
    for name in ("a b\n\tc", "é" * 300, "'\"$(x)", "\udcff"):
        assert label(group_for(f"/data/{name}"))


def test_two_pipes_are_two_groups() -> None:
    assert group_for(None) != group_for(None)


def test_a_line_is_known_by_its_text_and_by_how_often_it_came_before() -> None:
    first, second = Points("run"), Points("run")
    names = [first.name(text) for text in ("a", "b", "a")]
    assert len(set(names)) == 3
    # Another line in between, as after an edit of the file, changes nothing for the others.
    assert [second.name(text) for text in ("a", "new", "a", "b")][::2] == [names[0], names[2]]
    assert Points("other run").name("a") not in names
    assert all(len(name) <= 100 for name in names)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def _in_a_process_of_its_own(work: Callable[[], None]) -> bool:
    """Whether the work succeeds elsewhere: locks of one process don't hinder itself."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(30)
    return process.exitcode == 0


def test_a_feed_that_resumes_is_alone_in_its_group(home: Path) -> None:
    place = Home(str(home))

    def take(group: str, *, alone: bool) -> bool:
        def work() -> None:
            Lock(place, group, alone=alone)

        return _in_a_process_of_its_own(work)

    lock = Lock(place, "g", alone=True)
    assert not take("g", alone=False)
    assert not take("g", alone=True)
    assert take("other", alone=True)
    lock.close()
    lock = Lock(place, "g", alone=False)
    assert take("g", alone=False)
    assert not take("g", alone=True)
    lock.close()
    assert take("g", alone=True)


def test_the_refusal_of_a_second_feed_says_what_to_do(home: Path) -> None:
    place = Home(str(home))
    lock = Lock(place, "g", alone=True)

    def work() -> None:
        with pytest.raises(Failed, match="already running") as refusal:
            Lock(place, "g", alone=True)
        assert refusal.value.hint

    assert _in_a_process_of_its_own(work)
    lock.close()


def test_the_last_run_is_found_behind_other_jobs_of_the_group(home: Path) -> None:
    def listed(request: dict[str, Any]) -> dict[str, Any]:
        jobs = [
            job(1, params={"feed": "older"}),
            job(2, params={"feed": "last"}),
            *(job(number, params={}) for number in range(3, 8)),
        ]
        return {"jobs": jobs[-request["limit"] :], "total": len(jobs)}

    with ScriptedDaemon(home, {"list": listed}), Client(Home(str(home))) as client:
        assert last_run(client, "g") == "last"


def test_a_group_without_feeds_has_no_last_run(home: Path) -> None:
    script = {"list": {"jobs": [job(1, params={"lr": 1})], "total": 1}}
    with ScriptedDaemon(home, script), Client(Home(str(home))) as client:
        assert last_run(client, "g") is None
