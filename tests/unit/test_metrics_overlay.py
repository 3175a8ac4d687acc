"""One metric of many jobs in one picture: the best are always there, and it stays small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.metrics.attempt import Reading
from stoker.metrics.kept import Kept
from stoker.metrics.lookup import Lookup
from stoker.metrics.overlay import Wanted, best_and_spread, likely, overlay
from stoker.metrics.series import Series
from stoker.metrics.spec import Spec

FEW = Wanted(None, None, most=200, points=1000)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(str(tmp_path / "metrics.db"))
    yield kept
    kept.close()


@pytest.fixture
def lookup(tmp_path: Path, kept: Kept) -> Lookup:
    return Lookup(str(tmp_path / "metrics.db"))


def trained(kept: Kept, folder: Path, job: int, text: str, attempt: int = 1) -> None:
    """Let a job have printed this."""
    log = folder / f"{job}-{attempt}.log"
    log.write_text(text, encoding="utf-8")
    reading = Reading(Spec(job, attempt, log=str(log), ended=True))
    while reading.read(1 << 20, ended=True):
        pass
    kept.store([reading])


def succeeded(*jobs: int) -> dict[int, str]:
    return dict.fromkeys(jobs, "succeeded")


@given(total=st.integers(0, 3000), most=st.integers(1, 300))
def test_of_too_many_there_are_the_best_and_some_of_all_others(total: int, most: int) -> None:
    ranked = list(range(total))
    found = best_and_spread(ranked, most)
    assert len(found) == len(set(found)) == min(total, most)
    assert found == sorted(found)
    assert found[: (most + 1) // 2] == ranked[: (most + 1) // 2]
    if most > 2 and total:
        assert found[-1] == ranked[-1] or most == 3, "the worst is one of them"


def test_the_metric_is_the_objective_or_the_one_whose_name_tells() -> None:
    names = {"lr": 9, "acc": 9, "train_loss": 9, "val_loss": 3, "x": 9}
    assert likely(names) == "val_loss"
    assert likely(names, [["gone", "min"], ["x", "max"]]) == "x"
    assert likely({"zz": 5, "lr": 1}) == "zz", "else the first, which most jobs have"
    assert likely({}) is None


def test_the_best_comes_first_and_jobs_with_only_nan_last(
    kept: Kept, lookup: Lookup, tmp_path: Path
) -> None:
    for job, text in enumerate(("loss=3", "loss=nan", "loss=1", "acc=5 loss=2", "nothing"), 1):
        trained(kept, tmp_path, job, f"step 1 {text}\n")
    found = overlay(lookup, succeeded(1, 2, 3, 4, 5), FEW)
    assert (found["name"], found["goal"], found["total"]) == ("loss", "min", 4)
    assert found["names"] == [["loss", 4], ["acc", 1]]
    assert [one["job"] for one in found["curves"]] == [3, 4, 1, 2]
    assert found["curves"][3]["points"] == [[1, "nan"]]
    most = Wanted("loss", "max", most=2, points=1000)
    assert [one["job"] for one in overlay(lookup, succeeded(1, 2, 3, 4, 5), most)["curves"]] == [
        1,
        4,
    ]
    by_search = overlay(lookup, succeeded(1, 4), FEW, [["acc", "min"]])
    assert (by_search["name"], by_search["goal"], by_search["total"]) == ("acc", "min", 1)


def test_a_job_that_failed_or_diverged_comes_last_and_a_running_one_is_best_if_none_has_ended(
    kept: Kept, lookup: Lookup, tmp_path: Path
) -> None:
    for job, text in enumerate(("loss=1", "loss=-inf", "loss=2", "loss=3", "loss=0.1"), 1):
        trained(kept, tmp_path, job, f"step 1 {text}\n")
    states = {1: "running", 2: "succeeded", 3: "succeeded", 4: "stopped", 5: "failed"}
    found = overlay(lookup, states, FEW)
    assert found["best"] == 3 and [one["job"] for one in found["curves"]] == [3, 1, 4, 2, 5]
    del states[3], states[4]
    assert overlay(lookup, states, FEW)["best"] == 1
    assert overlay(lookup, {2: "succeeded", 5: "failed"}, FEW)["best"] is None


def test_of_a_job_that_was_tried_again_the_latest_attempt_counts(
    kept: Kept, lookup: Lookup, tmp_path: Path
) -> None:
    trained(kept, tmp_path, 1, "step 1 loss=0.1\n")
    trained(kept, tmp_path, 1, "step 1 loss=7\nstep 2 loss=5\n", attempt=2)
    [curve] = overlay(lookup, succeeded(1), FEW)["curves"]
    assert (curve["attempt"], curve["points"]) == (2, [[1, 7], [2, 5]])


def test_where_there_is_no_metric_there_is_nothing_to_see(lookup: Lookup) -> None:
    found = overlay(lookup, succeeded(1, 2), FEW)
    assert (found["name"], found["curves"], found["names"]) == (None, [], [])
    unknown = overlay(lookup, succeeded(1), Wanted("gone", None, most=5, points=1000))
    assert (unknown["name"], unknown["curves"], unknown["total"]) == ("gone", [], 0)


@given(
    values=st.lists(st.floats(width=32) | st.just(float("nan")), min_size=1, max_size=900),
    points=st.integers(4, 600),
)
def test_a_thinned_curve_keeps_its_ends_and_its_extremes(values: list[float], points: int) -> None:
    series = Series()
    series.extend(enumerate(values))
    thin = series.thinned(points)
    curve = thin.curve()
    assert len(curve) <= points + 2
    assert repr(curve[0]) == repr(series.first) and repr(curve[-1]) == repr(series.last)
    for extreme in (series.lowest, series.highest):
        assert extreme is None or extreme[1] in [value for _, value in curve]
