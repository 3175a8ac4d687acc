"""Searches from Python."""

from __future__ import annotations

from typing import Any

import pytest

from library_home import library
from stoker import Client
from stoker.errors import NotFound, UsageError
from stoker.library.searching import Search
from stoker_home import StokerHome
from waiting import PATIENCE_S, eventually

__all__ = ["library"]

TRAIN = "echo loss={x} acc={x}"
SPACE: dict[str | tuple[str, ...], Any] = {"x": "uniform(0,1)", "bs": [16, 32]}


@pytest.fixture
def client(library: StokerHome) -> Client:
    return Client(library.home.root)


def test_a_search_is_waited_for_and_says_its_best(client: Client) -> None:
    search = client.search(
        TRAIN, SPACE, minimize="loss", samples=5, sampler="random", seed=3, max_running=2, gpus=0,
        where="x < 0.9", name="mine",
    )  # fmt: skip
    assert isinstance(search, Search) and search.name == "mine"
    jobs = search.wait(timeout=PATIENCE_S)
    assert len(jobs) == 5 and {job["state"] for job in jobs} == {"succeeded"}
    progress = search.progress()
    assert (progress.is_over, progress.trials, progress.told, progress.samples) == (True, 5, 5, 5)
    assert progress.over == "all trials were made" and "trial 5 of 5, best loss" in progress.text
    results = client.results(search)
    best = search.best
    assert best is not None and results.best == best and best.is_best
    lowest = min(row.params["x"] for row in results)
    assert best.params["x"] == best.metrics["loss"].best == lowest < 0.9
    again = client.search(
        TRAIN, SPACE, minimize="loss", samples=6, max_running=2, gpus=0, name="mine", where="x<0.9"
    )
    assert len(again.wait(timeout=PATIENCE_S)) == 6, "a larger number extends it"


def test_several_goals_and_repeats(client: Client) -> None:
    search = client.search(
        TRAIN, {"x": "uniform(0,1)"}, minimize=["loss"], maximize="acc", samples=3,
        repeat={"seed": 2}, gpus=0,
    )  # fmt: skip
    assert len(search.wait(PATIENCE_S)) == 6
    assert len(search.results()) == len(search.results().front) == 3


def test_a_search_ends_when_it_is_good_enough_or_cancelled(client: Client) -> None:
    search = client.search(TRAIN, SPACE, minimize="loss", until="loss < 2", for_="8h", gpus=0)
    search.wait(PATIENCE_S)
    assert search.progress().over == "loss is good enough"
    slow = client.search("sleep 1000{x} {bs}", SPACE, minimize="loss", samples=9, max_running=1)
    eventually(lambda: slow.progress().trials, "the first point is chosen")
    with pytest.raises(TimeoutError):
        slow.wait(timeout=0.1)
    assert slow.cancel()
    slow.wait(PATIENCE_S)
    assert slow.progress().over == "it was cancelled"
    with pytest.raises(NotFound):
        client.results("nothing")


def test_what_makes_no_sense_is_told_in_pythons_words(client: Client) -> None:
    with pytest.raises(UsageError, match="what to search for"):
        client.search(TRAIN, SPACE, samples=3)
    with pytest.raises(UsageError, match=r"Client\.search"):
        client.sweep(TRAIN, SPACE, minimize="loss", samples=3)  # type: ignore[call-arg]
    with pytest.raises(UsageError) as refused:
        client.search(TRAIN, SPACE, minimize="loss")
    assert "samples" in str(refused.value) and "--" not in str(refused.value)
    with pytest.raises(UsageError, match="Optuna has no sampler"):
        client.search(TRAIN, SPACE, minimize="loss", samples=3, sampler="magic")


def test_a_search_from_python_stops_points_early(client: Client, library: StokerHome) -> None:
    # The first point is good and ends by itself; the second is worse, and would run on and on.
    train = (
        "if mkdir first; then for s in 1 2 3 4 5; do echo step $s loss=0.5; done; "
        "else for s in 1 2 3 4 5; do echo step $s loss=1.$s; done; exec sleep 1000; fi # {x}"
    )
    search = client.search(
        train, {"x": "uniform(0,1)"}, minimize="loss", samples=2, max_running=1, gpus=0,
        stop_early="asha", min_steps=2, grace="1s",
    )  # fmt: skip
    states = [job["state"] for job in search.wait(PATIENCE_S)]
    assert states == ["succeeded", "stopped"]
    with pytest.raises(UsageError, match="no rule 'magic'"):
        client.search(train, SPACE, minimize="loss", samples=3, stop_early="magic")
    with pytest.raises(UsageError, match="min_steps"):
        client.search(train, SPACE, minimize="loss", samples=3, stop_early="asha", min_steps=0)


def test_points_that_failed_run_again_if_that_is_wanted(
    client: Client, library: StokerHome
) -> None:
    def searched(rerun: str | None = None) -> Search:
        return client.search(
            "[ -e mended ] && echo loss={x}", {"x": "uniform(0,1)"}, minimize="loss", samples=2,
            max_running=1, gpus=0, name="again", rerun=rerun,
        )  # fmt: skip

    search = searched()
    search.wait(PATIENCE_S)
    assert (search.progress().failed, search.best) == (2, None)
    (library.work / "mended").touch()
    with pytest.raises(UsageError, match="'all' is not known of a search"):
        searched("all")
    assert {job["state"] for job in searched("failed").wait(PATIENCE_S)} == {"succeeded"}
    progress, best = search.progress(), search.best
    assert (progress.trials, progress.failed) == (2, 0) and best is not None
    assert f"best loss {best.metrics['loss'].best:.5g} at trial " in progress.text


def test_a_wandb_file_with_bayes_is_for_search_and_not_for_sweep(
    client: Client, library: StokerHome
) -> None:
    file = library.work / "sweep.yaml"
    file.write_text(
        "method: bayes\nrun_cap: 2\nname: s\nmetric: {name: loss, goal: minimize}\n"
        "parameters: {x: {min: 0.0, max: 1.0}}\n"
    )
    with pytest.raises(UsageError) as refused:
        client.sweep("echo loss={x}", file=file)
    assert "Client.search" in refused.value.hint
    search = client.search("echo loss={x}", file=file, gpus=0)
    assert len(search.wait(PATIENCE_S)) == 2
