"""`stoker sweep --minimize` on a real daemon: points chosen one by one, up to the last."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker_home import StokerHome
from waiting import eventually

TRAIN = "echo step 1 loss=$2"
SPACE = ("x=uniform(0,1)", "--minimize", "loss", "--name", "s")
COMMAND = ("--", "sh", "-c", TRAIN, "train", "0", "{x}")


@pytest.fixture
def searched(home: StokerHome) -> StokerHome:
    home.start(gpus="0-3")
    return home


def _shown(home: StokerHome) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(home.stoker("sweep", "show", "s", "--json"))
    return answer


def _ended(home: StokerHome) -> dict[str, Any]:
    """The search once it is over."""

    def over() -> dict[str, Any] | None:
        [search] = home.call("searches", name="s")["searches"]
        return search["progress"] if search["state"] == "ended" else None

    found = eventually(over, "the search ends")
    assert found is not None
    return found


def test_a_search_makes_its_trials_finds_the_best_and_is_extended(searched: StokerHome) -> None:
    more = ("--max-running", "2", *COMMAND)
    assert searched.stoker("sweep", *SPACE, "--samples", "4", *more) == "s\n"
    progress = _ended(searched)
    assert (progress["trials"], progress["over"]) == (4, "all trials were made")
    searched.stoker("sweep", *SPACE, "--samples", "6", *more)
    eventually(lambda: len(_shown(searched)["points"]) == 6, "two more points")
    assert _ended(searched)["trials"] == 6
    points = _shown(searched)["points"]
    values = [point["params"]["x"] for point in points]
    assert len(set(values)) == 6
    number, best = _ended(searched)["best"][0]
    assert best == min(values) == values[number]
    assert "best loss" in searched.cli("sweep", "show", "s").err


def test_a_search_ends_when_a_value_is_good_enough(searched: StokerHome) -> None:
    searched.stoker("sweep", *SPACE, "--until", "loss < 2", *COMMAND)
    assert _ended(searched)["over"] == "loss is good enough"


def test_a_metric_that_never_appears_ends_the_search_and_the_others_are_named(
    searched: StokerHome,
) -> None:
    space = ("x=uniform(0,1)", "--minimize", "val_loss", "--name", "s", "--samples", "50")
    searched.stoker("sweep", *space, "--max-running", "1", *COMMAND)
    progress = _ended(searched)
    assert progress["over"] == "the points have no value of val_loss; they have loss"
    assert progress["trials"] <= 4


def test_a_search_that_is_cancelled_chooses_no_more_points(searched: StokerHome) -> None:
    sleeps = ("--max-running", "1", "--", "sleep", "100{x}")
    searched.stoker("sweep", *SPACE, "--samples", "9", *sleeps)
    eventually(lambda: _shown(searched)["counts"].get("running"), "the first point runs")
    searched.stoker("cancel", "--group", "s")
    assert _ended(searched)["over"] == "it was cancelled"
    eventually(lambda: _shown(searched)["counts"] == {"cancelled": 1}, "the point has ended")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x=1,2", "--minimize", "loss", "--samples", "3"), "a search needs a distribution"),
        (("x=uniform(0,1)", "--minimize", "loss"), "the search has no end"),
        (("x=uniform(0,1)", "--samples", "3", "--sampler", "tpe"), "--sampler is about a search"),
        ((*SPACE, "--samples", "3", "--sampler", "magic"), "Optuna has no sampler 'magic'"),
        ((*SPACE, "--samples", "3", "--where", "x > 1"), "no point is left"),
        ((*SPACE, "--samples", "3", "--where", "y > 1"), "y"),
        ((*SPACE, "--samples", "999999", "--repeat", "seed=2"), "more than 1000000 jobs"),
        ((*SPACE, "--samples", "3", "--rerun", "all"), "a search runs no point again"),
        ((*SPACE, "--maximize", "loss", "--samples", "3"), "is wanted twice"),
        (("x=uniform(0,1)", "--minimize", "", "--samples", "3"), "a metric without a name"),
        ((*SPACE, "--samples", "3", "--out", "all.txt"), "all points would write to one file"),
        ((*SPACE, "--samples", "3"), "no GPU"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused_in_one_line(
    home: StokerHome, words: tuple[str, ...], said: str
) -> None:
    ran = home.cli("sweep", *words, "--", "true")
    assert ran.code == 2
    assert said in ran.err
    assert not ran.out


@pytest.mark.parametrize(
    "options",
    [
        ("--on", "7"),
        ("--after", "99999"),
        ("--gpus", "99"),
        ("--mem", "100G"),
        ("--out", "{y}.txt"),
    ],
)
def test_a_search_whose_points_would_be_refused_is_refused_as_a_grid_is(
    searched: StokerHome, options: tuple[str, ...]
) -> None:
    (searched.work / "fit.txt").write_text("what is in it is not lost")
    words = (*options, "--", "true")
    grid = searched.cli("sweep", "x=1,2", "y=fit", *words)
    ran = searched.cli("sweep", *SPACE, "y=fit", "--samples", "3", *words)
    assert ran.code in (2, 3)
    assert (ran.code, ran.out, ran.err) == (grid.code, "", grid.err)
    assert searched.call("searches")["searches"] == []
    assert searched.jobs() == {}


def test_a_search_goes_on_only_with_its_own_command_in_its_own_directory(
    searched: StokerHome,
) -> None:
    begun = (*SPACE, "--samples", "1")
    searched.stoker("sweep", *begun, *COMMAND)
    other = searched.cli("sweep", *begun, "--", "echo", "loss={x}")
    assert (other.code, other.out) == (2, "")
    assert "the search s has another command" in other.err
    elsewhere = searched.work / "elsewhere"
    elsewhere.mkdir()
    moved = searched.cli("sweep", *begun, "--cwd", str(elsewhere), *COMMAND)
    assert moved.code == 2
    assert f"runs in another directory, {searched.work}" in moved.err
    grid = searched.cli("sweep", "x=1,2", "--name", "s", *COMMAND)
    assert grid.code == 2
    assert "s is a search" in grid.err
    assert searched.cli("sweep", *begun, "--cwd", str(searched.work), *COMMAND).code == 0


def test_a_search_whose_points_are_all_removed_begins_anew(searched: StokerHome) -> None:
    begun = (*SPACE, "--samples", "2")
    searched.stoker("sweep", *begun, *COMMAND)
    assert searched.cli("wait", "--group", "s").code == 0
    searched.stoker("rm", "--group", "s")
    again = searched.cli(
        "sweep", "y=uniform(0,1)", *SPACE[1:], "--samples", "3", "--", "echo", "loss={y}"
    )
    assert again.code == 0, again.err
    assert "the points of s were removed: the search begins anew" in again.err
    assert searched.cli("wait", "--group", "s").code == 0
    [kept] = searched.call("searches", name="s")["searches"]
    assert (kept["progress"]["trials"], kept["progress"]["told"]) == (3, 3)
    rows = searched.call("searches", name="s")["points"]
    assert sorted(list(row[4]) for row in rows) == [["y"]] * 3
    goes_on = searched.cli(
        "sweep", "y=uniform(0,1)", *SPACE[1:], "--samples", "4", "--", "echo", "loss={y}"
    )
    assert "3 made before" in goes_on.err and "anew" not in goes_on.err


def test_a_search_with_frozen_code_goes_on_from_within_a_frozen_job(searched: StokerHome) -> None:
    (searched.work / "loss.sh").write_text("echo loss=$1\n")
    asked = ("sweep", *SPACE, "--freeze", "--gpus", "0", "--samples")
    command = ("--", "sh", "loss.sh", "{x}")
    for samples in ("1", "2"):
        inner = searched.command(*asked, samples, *command)
        job = searched.stoker("add", "--gpus", "0", "--freeze", "--", *inner).strip()
        assert searched.cli("wait", job).code == 0, searched.stoker("logs", job)
        assert searched.cli("wait", "--group", "s").code == 0
    assert searched.cli(*asked, "3", *command).code == 0, "it is the same directory"
    [kept] = searched.call("searches", name="s")["searches"]
    assert kept["spec"]["shared"]["freeze"] == str(searched.work)
