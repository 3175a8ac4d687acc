"""What a search says of itself, and what front ends know of its goals."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
from typing import Any

import pytest

from stoker_home import StokerHome, command_line_of
from waiting import PATIENCE_S, eventually

# The lower the loss, the higher the latency: each point is on the front, but for x above 1.
TRAIN = "echo step 1 loss={x} latency=$(python3 -c 'print(abs(1 - {x}))') acc={x}"
TWO = ("--minimize", "loss", "--minimize", "latency")


@pytest.fixture
def searched(home: StokerHome) -> StokerHome:
    home.start(gpus="0-3")
    return home


def _search(home: StokerHome, *words: str, command: str = "echo loss={x}") -> None:
    home.stoker("sweep", "--name", "s", "--max-running", "2", *words, "--", command)
    assert home.cli("wait", "--group", "s").code == 0


def test_why_says_what_a_search_does_and_what_its_points_wait_for(searched: StokerHome) -> None:
    searched.stoker("pause")
    words = ("x=uniform(0,1)", "--minimize", "loss", "--samples", "3", "--name", "s")
    searched.stoker("sweep", *words, "--", "echo loss={x}")
    line = "search s: trial 1 of 3, waits for a slot\n"
    eventually(lambda: line in searched.stoker("why", "s"), "the first trial waits")
    assert "is waiting: the queue is paused" in searched.stoker("why", "s")
    assert searched.stoker("why", "1").startswith(line), "a point says what its search does"
    assert searched.stoker("why", "--group", "s").startswith(line)
    told = json.loads(searched.stoker("why", "s", "--json"))
    assert [job["id"] for job in told["jobs"]] == [1]
    assert told["searches"][0]["text"] == "trial 1 of 3, waits for a slot"
    searched.stoker("resume")
    searched.stoker("wait", "--group", "s")
    said = searched.stoker("why", "s")
    assert said.startswith("search s: trial 3 of 3, best loss 0.")
    assert said.endswith("ended: all trials were made\n")
    assert "all trials were made" in searched.cli("sweep", "show", "s").err


def test_why_of_a_sweep_is_about_its_jobs_that_have_not_ended(searched: StokerHome) -> None:
    searched.stoker("sweep", "x=1,2", "--name", "grid", "--hold", "--", "true {x}")
    assert searched.stoker("why", "grid").count("is held") == 2
    searched.stoker("cancel", "--group", "grid")
    ran = searched.cli("why", "grid")
    assert (ran.out, ran.code) == ("", 0)
    assert "all jobs of grid have ended" in ran.err
    unknown = searched.cli("why", "nothing")
    assert unknown.code == 2
    assert "'nothing'" in unknown.err


def test_a_searcher_that_can_not_go_on_is_told(searched: StokerHome) -> None:
    words = ("x=uniform(0,1)", "--minimize", "loss", "--samples", "3", "--name", "s")
    searched.stoker("sweep", *words, "--max-running", "1", "--", "sleep 1000{x}")
    eventually(lambda: "trial 1 of 3" in searched.stoker("why", "s"), "it goes on")

    def told() -> bool:
        for pid in searched.processes():  # Each is killed before it has begun.
            if b"stoker.search.main" in command_line_of(pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        return "its searcher ended (signal 9) and is started again" in searched.stoker("why", "s")

    eventually(told, "the trouble is told")
    eventually(lambda: "waits for a result" in searched.stoker("why", "s"), "and passes")


def test_wait_for_a_search_returns_when_its_last_point_has_ended(searched: StokerHome) -> None:
    _search(searched, "x=uniform(0,1)", "--minimize", "loss", "--samples", "5")
    assert len(searched.jobs()) == 5
    assert {job["state"] for job in searched.jobs().values()} == {"succeeded"}


def test_wait_gives_up_on_a_search_at_its_deadline_and_hears_when_it_is_cancelled(
    searched: StokerHome,
) -> None:
    words = ("x=uniform(0,1)", "--minimize", "loss", "--samples", "5", "--name", "s")
    searched.stoker("sweep", *words, "--", "sleep 1000{x}")
    assert searched.cli("wait", "--group", "s", "--timeout", "0.1s").code == 124
    waiting = searched.popen("wait", "--group", "s")
    eventually(lambda: len(searched.jobs()) == 5, "it is under way")
    searched.stoker("cancel", "--group", "s")
    assert waiting.wait(PATIENCE_S) == 1


def test_the_results_of_a_search_know_its_goal(searched: StokerHome) -> None:
    _search(searched, "x=uniform(0,1)", "--maximize", "acc", "--samples", "4", command=TRAIN)
    found = json.loads(searched.stoker("results", "s", "--json"))
    assert found["objectives"] == [{"metric": "acc", "goal": "max"}]
    points = _points(searched)
    highest = max(point["params"]["x"] for point in points)
    for words in (("s",), ("--group", "s"), ("1-4",), ("last",)):
        best = json.loads(searched.stoker("results", "best", *words, "--json"))["best"]
        assert [row["params"]["x"] for row in best] == [highest], words
    lowest = json.loads(searched.stoker("results", "best", "s", "--minimize", "acc", "--json"))
    assert lowest["best"][0]["params"]["x"] < highest, "what is said counts"
    assert points[0]["metrics"]["acc"] == points[0]["params"]["x"]
    assert " acc " in searched.stoker("sweep", "show", "s").splitlines()[0]


def _points(home: StokerHome) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(home.stoker("sweep", "show", "s", "--json"))["points"]
    return found


def test_a_search_that_has_no_values_yet_has_results_all_the_same(searched: StokerHome) -> None:
    words = ("x=uniform(0,1)", "--minimize", "loss", "--samples", "3", "--name", "s")
    searched.stoker("sweep", *words, "--hold", "--", "true {x}")
    eventually(lambda: len(searched.jobs()) == 1, "the first point is held")
    assert json.loads(searched.stoker("results", "s", "--json"))["objectives"] == []
    assert "held" in searched.stoker("sweep", "show", "s")


def test_several_goals_have_a_front_in_every_form(searched: StokerHome) -> None:
    _search(searched, "x=uniform(0,2)", *TWO, "--samples", "8", command=TRAIN)
    xs = {point["id"]: point["params"]["x"] for point in _points(searched)}
    # Up to 1, less of the one is more of the other. What is above 1 is worse in both than a point
    # below that is as near to 1.
    front = {
        job_id
        for job_id, x in xs.items()
        if not any(other < x and abs(1 - other) <= abs(1 - x) for other in xs.values())
    }
    assert front
    table = searched.stoker("results", "s").splitlines()
    marked = {int(line.split()[1]) for line in table[1:] if line.startswith("*")}
    assert marked == front
    told = json.loads(searched.stoker("results", "s", "--json"))
    assert {row["id"] for row in told["results"] if row["best"]} == front
    assert [one["metric"] for one in told["objectives"]] == ["loss", "latency"]
    rows = csv.DictReader(io.StringIO(searched.stoker("results", "s", "--csv")))
    assert {int(row["id"]) for row in rows if row["best"] == "1"} == front
    best = json.loads(searched.stoker("results", "best", "s", "--json"))["best"]
    assert {row["id"] for row in best} == front
    page = searched.stoker("results", "best", "s")
    assert page.count("latency") >= len(front)
    assert page.count("run again") == len(front)
    search = searched.call("searches", name="s", brief=True)["searches"][0]
    numbers = {number for number, *_ in search["progress"]["best"]}
    assert {sorted(xs)[number] for number in numbers} == front, "Optuna says the same"
    assert f"{len(front)} on the Pareto front" in searched.stoker("why", "s")
