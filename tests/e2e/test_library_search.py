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
