"""Many alike jobs in one submission: what they share is said once, what differs in `each`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any, TypeAlias

import pytest

from stoker.errors import UsageError
from stoker_home import StokerHome

Each: TypeAlias = list[dict[str, Any]]


def submitted(stoker: StokerHome, base: dict[str, Any], each: Each) -> list[int]:
    return stoker.submit_all([base], each=each)


def test_each_entry_is_a_job_like_the_one_but_for_what_it_says(stoker: StokerHome) -> None:
    base = {"argv": ["true"], "gpus": 2, "group": "runs", "hold": True, "priority": 3, "name": "n"}
    each: Each = [
        {},
        {"argv": ["echo", "1"], "name": "first", "priority": -5},
        {"shell": "exit 3", "params": {"lr": 0.1}, "point": "a"},
    ]
    jobs = [stoker.job(job_id) for job_id in submitted(stoker, base, each)]
    assert [job["command"] for job in jobs] == ["true", "echo 1", "exit 3"]
    assert [job["name"] for job in jobs] == ["n", "first", "n"]
    assert [job["priority"] for job in jobs] == [3, -5, 3]
    assert [job["params"] for job in jobs] == [{}, {}, {"lr": 0.1}]
    for job in jobs:
        assert (job["need"]["gpus"], job["group"], job["state"]) == (2, "runs", "held")


def test_they_run_as_if_they_had_been_said_one_by_one(stoker: StokerHome) -> None:
    out = stoker.work / "own"
    each: Each = [
        {"argv": ["echo", "a"]},
        {"shell": "echo b", "out": str(out)},
        {"shell": "exit 3"},
    ]
    ended = stoker.until_final(*submitted(stoker, {"gpus": 1}, each))
    assert [job["exit_code"] for job in ended] == [0, 0, 3]
    assert stoker.log_of(ended[0]["id"]) == "a\n" and out.read_text() == "b\n"


def test_one_bad_entry_is_refused_with_all_the_others(stoker: StokerHome) -> None:
    names: Each = [{"name": "two\nlines"}, {"name": " "}, {"name": ""}, {"name": "x" * 1000}]
    for bad in (*names, {"argv": ["a\0"]}, {"out": "relative"}, {"shell": " "}):
        with pytest.raises(UsageError):
            submitted(stoker, {"argv": ["true"]}, [{}, bad])
    assert not stoker.jobs()


def test_without_any_command_there_is_no_job(stoker: StokerHome) -> None:
    with pytest.raises(UsageError, match="no command"):
        submitted(stoker, {}, [{"argv": ["true"]}, {}])
    assert not stoker.jobs()


def test_entries_need_one_job_that_they_vary_and_at_least_one_of_them(stoker: StokerHome) -> None:
    with pytest.raises(UsageError, match="varies one job"):
        stoker.submit_all([{"argv": ["true"]}] * 2, each=[{}])
    with pytest.raises(UsageError, match="no job was given"):
        submitted(stoker, {"argv": ["true"]}, [])
    with pytest.raises(UsageError, match="in a terminal"):
        stoker.submit_all([{"argv": ["true"]}], each=[{}, {}], attached=True)
    assert not stoker.jobs()


def test_what_is_learned_of_their_memory_is_learned_of_each_kind(stoker: StokerHome) -> None:
    each: Each = [{"argv": ["one", "1"]}, {"argv": ["other"]}, {"argv": ["one", "2"]}]
    submitted(stoker, {"gpus": 1, "mem": "auto", "hold": True}, each)
    with closing(sqlite3.connect(stoker.home.database)) as database:
        bodies = database.execute("SELECT n.body FROM jobs j JOIN needs n ON n.id = j.need")
        kinds = [json.loads(body)["kind"] for (body,) in bodies]
    assert kinds == ["one", "other", "one"]


def test_a_repeated_submission_is_taken_once(stoker: StokerHome) -> None:
    order = {"each": [{}, {}], "token": "same"}
    first = stoker.submit_all([{"argv": ["true"]}], **order)
    assert stoker.submit_all([{"argv": ["true"]}], **order) == first
    assert len(stoker.jobs()) == 2
