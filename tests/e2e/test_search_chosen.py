"""Which points a search may choose, and how often each of them runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker_home import StokerHome
from waiting import eventually


@pytest.fixture
def searched(home: StokerHome) -> StokerHome:
    home.start(gpus="0-3")
    return home


def _search(home: StokerHome, *words: str, command: str = "echo loss={x}") -> dict[str, Any]:
    """How far a search is at its end."""
    home.stoker("sweep", "--name", "s", "--minimize", "loss", *words, "--", command)
    home.cli("wait", "--group", "s")
    [search] = home.call("searches", name="s", brief=True)["searches"]
    progress: dict[str, Any] = search["progress"]
    return progress


def _params(home: StokerHome) -> list[dict[str, Any]]:
    shown = json.loads(home.stoker("sweep", "show", "s", "--json"))
    return [point["params"] for point in shown["points"]]


def test_a_search_tries_only_points_that_where_leaves(searched: StokerHome) -> None:
    space = ("x=uniform(0,1)", "y=randint(1,9)", "--where", "x * y < 1", "--where", "y != 2")
    progress = _search(searched, *space, "--samples", "12", "--max-running", "2")
    found = _params(searched)
    assert (progress["trials"], len(found)) == (12, 12), "what is left out is no trial"
    assert all(point["x"] * point["y"] < 1 and point["y"] != 2 for point in found)
    assert len({point["x"] for point in found}) == 12


@pytest.mark.parametrize("words", [("grid",), ("bruteforce", "--samples", "50")])
def test_a_search_ends_when_where_leaves_no_point_any_more(
    searched: StokerHome, words: tuple[str, ...]
) -> None:
    space = ("x=choice(1,2,3)", "y=choice(1,2)", "--where", "x + y < 4")
    progress = _search(searched, *space, "--sampler", *words)
    assert progress["over"] == "all points were tried"
    assert progress["trials"] == 3
    found = sorted((point["x"], point["y"]) for point in _params(searched))
    assert found == [(1, 1), (1, 2), (2, 1)]


def test_a_trial_that_is_repeated_has_the_mean_of_its_runs(searched: StokerHome) -> None:
    command = "echo loss=$(({x} * 10 + {seed}))"
    space = ("x=randint(1,50)", "--repeat", "seed=3", "--samples", "4", "--max-running", "4")
    progress = _search(searched, *space, command=command)
    found = _params(searched)
    assert progress["trials"] == progress["told"] == 4
    assert len(found) == 12
    assert [point["seed"] for point in found] == [0, 1, 2] * 4, "those of a trial come together"
    xs = [found[place]["x"] for place in range(0, 12, 3)]
    assert [point["x"] for point in found] == [x for x in xs for _ in range(3)]
    number, value = progress["best"][0]
    assert value == min(xs) * 10 + 1 == xs[number] * 10 + 1
    rows = json.loads(searched.stoker("results", "s", "--json"))["results"]
    assert rows[0]["params"] == {"x": min(xs)}
    assert rows[0]["metrics"]["loss"]["best"] == value


def test_a_trial_fails_with_one_of_its_repeats(searched: StokerHome) -> None:
    command = "echo loss={x}; test {seed} != 1"
    space = ("x=uniform(0,1)", "--repeat", "seed=2", "--samples", "2")
    progress = _search(searched, *space, command=command)
    assert progress["best"] == []
    assert progress["told"] == 2


def test_a_study_that_is_lost_is_filled_from_repeated_points(searched: StokerHome) -> None:
    space = ("x=uniform(0,1)", "--repeat", "seed=2", "--where", "x < 0.9")
    before = _search(searched, *space, "--samples", "3")
    searched.stoker("daemon", "stop")
    for file in Path(searched.home.root).glob("studies.db*"):
        file.unlink()
    searched.start()
    after = _search(searched, *space, "--samples", "4")
    assert (after["trials"], len(_params(searched))) == (4, 8)
    assert after["best"][0][1] <= before["best"][0][1]


def test_other_repeats_are_another_search(searched: StokerHome) -> None:
    _search(searched, "x=uniform(0,1)", "--repeat", "seed=2", "--samples", "1")
    words = ("x=uniform(0,1)", "--minimize", "loss", "--samples", "2", "--name", "s")
    refused = searched.cli("sweep", *words, "--repeat", "seed=3", "--", "echo loss={x}")
    assert refused.code == 2
    assert "the search s has other repeats" in refused.err


def test_points_that_fail_are_lost_or_cancelled_are_told_as_failed(searched: StokerHome) -> None:
    command = "case $STOKER_JOB_ID in 1) exit 1;; 2) sleep 1000;; esac; echo loss={x}"
    words = ("x=uniform(0,1)", "--minimize", "loss", "--samples", "4", "--name", "s")
    searched.stoker("sweep", *words, "--max-running", "1", "--", command)
    eventually(lambda: searched.jobs().get(2, {}).get("state") == "running", "the second runs")
    searched.stoker("cancel", "2")
    searched.cli("wait", "--group", "s")
    [search] = searched.call("searches", name="s", brief=True)["searches"]
    assert search["progress"]["trials"] == search["progress"]["told"] == 4
    assert search["progress"]["best"][0][0] in (2, 3)
    states = [job["state"] for _, job in sorted(searched.jobs().items())]
    assert states == ["failed", "cancelled", "succeeded", "succeeded"]


@pytest.mark.parametrize(
    ("gpus", "words", "last_words"),
    [
        ("0-3:24G", ("--retries", "1"), "a bad day"),
        ("0:24G", ("--mem", "2G"), "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
    ids=["retried", "out of memory"],
)
def test_a_point_that_is_retried_is_the_same_trial(
    home: StokerHome, gpus: str, words: tuple[str, ...], last_words: str
) -> None:
    home.start(gpus=gpus)
    home.add("--gpus", "1", "--mem", "2G", "--", "sleep 1000")  # It leaves not all of the memory.
    command = f"echo loss={{x}}; [ $STOKER_ATTEMPT = 2 ] || (echo '{last_words}'; exit 1)"
    progress = _search(home, "x=uniform(0,1)", "--samples", "2", *words, command=command)
    points = [job for job in home.jobs().values() if job["group"] == "s"]
    assert progress["trials"] == progress["told"] == len(points) == 2
    assert {job["attempt"] for job in points} == {2}
    assert len(progress["best"]) == 1


def test_a_job_that_is_removed_while_it_waits_is_a_trial_without_a_value(
    searched: StokerHome,
) -> None:
    words = ("x=uniform(0,1)", "--minimize", "loss", "--samples", "2", "--name", "s")
    searched.stoker("sweep", *words, "--hold", "--max-running", "1", "--", "echo loss={x}")
    eventually(lambda: len(searched.jobs()) == 1, "the first is held")
    searched.stoker("cancel", "1")
    eventually(lambda: len(searched.jobs()) == 2, "the second is chosen")
    searched.stoker("rm", "1")
    searched.stoker("release", "2")
    searched.stoker("wait", "--group", "s")
    [search] = searched.call("searches", name="s", brief=True)["searches"]
    assert search["progress"]["trials"] == search["progress"]["told"] == 2


def test_a_searcher_is_told_only_of_new_points_and_of_those_that_had_not_ended(
    searched: StokerHome,
) -> None:
    searched.stoker("sweep", "x=range(0,5000)", "--name", "s", "--hold", "--", "true {x}")
    assert len(searched.call("searches", name="s")["points"]) == 5000
    some = searched.call("searches", name="s", newest=4998, unsure=[3, 4])["points"]
    assert [job_id for _, job_id, *_ in some] == [3, 4, 4999, 5000]


# What the dashboard answers, told by its own program code: its storage, its queries.
_DASHBOARD = """
import io, json, sys
from wsgiref.util import setup_testing_defaults
import optuna_dashboard

app = optuna_dashboard.wsgi(sys.argv[1])

def answer(path):
    environ = {"PATH_INFO": path, "REQUEST_METHOD": "GET"}
    setup_testing_defaults(environ)
    return json.loads(b"".join(app(environ, lambda status, headers, *_: None)))

[study] = answer("/api/studies")["study_summaries"]
trials = answer(f"/api/studies/{study['study_id']}")["trials"]
print(json.dumps({"name": study["study_name"], "trials": trials}))
"""


def test_the_study_of_a_search_opens_in_the_dashboard_of_optuna(searched: StokerHome) -> None:
    _search(searched, "x=uniform(0,1)", "--samples", "4", "--max-running", "2")
    storage = f"sqlite:///{searched.home.root}/studies.db"
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _DASHBOARD, storage],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    study = json.loads(told.stdout)
    assert study["name"] == "s"
    shown = {trial["values"][0] for trial in study["trials"]}
    assert len(study["trials"]) == 4 and {trial["state"] for trial in study["trials"]} == {
        "Complete"
    }
    assert {float(value) for value in shown} == {point["x"] for point in _params(searched)}
