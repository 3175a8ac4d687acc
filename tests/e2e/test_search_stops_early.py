"""`stoker sweep --stop-early` on a real daemon: points that are behind are stopped as they run."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

from stoker_home import StokerHome
from waiting import eventually

# The first point is good and ends by itself; all others are worse, and would run on and on.
TRAIN = """\
first=$STOKER_JOB_ID
for step in 1 2 3 4 5 6 7 8 9; do
  if [ $first = 1 ]; then echo "step $step loss=0.5"; else echo "step $step loss=1.$step"; fi
done
[ $first = 1 ] || exec sleep 1000
"""
SPACE = ("x=uniform(0,1)", "--minimize", "loss", "--name", "s", "--samples", "3")


def _search(home: StokerHome, *words: str) -> None:
    (home.work / "train.sh").write_text(TRAIN)
    home.start(gpus="0")
    home.stoker(
        "sweep", *SPACE, *words, "--max-running", "1", "--grace", "1s", "--", "sh", "train.sh"
    )


def _over(home: StokerHome) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        [search] = home.call("searches", name="s")["searches"]
        return search["progress"] if search["state"] == "ended" else None

    found = eventually(ended, "the search ends", timeout_s=60)
    assert found is not None
    return found


def _rows(home: StokerHome, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"{home.home.root}/studies.db")) as study:
        return study.execute(query).fetchall()


def test_points_that_are_behind_are_stopped_and_told_as_pruned(home: StokerHome) -> None:
    _search(home, "--stop-early", "asha", "--min-steps", "3")
    progress = _over(home)
    assert (progress["trials"], progress["told"]) == (3, 3)
    assert progress["best"] == [[0, 0.5]]
    jobs = home.jobs()
    assert Counter(job["state"] for job in jobs.values()) == {"succeeded": 1, "stopped": 2}
    assert jobs[2]["reason"] == "stopped early at step 3: loss 1.3 (asha)"
    shown = home.cli("sweep", "show", "s")
    assert "2 stopped" in shown.out + shown.err
    assert "best loss 0.5 at trial 1, 2 stopped early, ended: all trials were made" in shown.err
    assert home.cli("wait", "--group", "s").code == 0
    rows = _rows(
        home,
        "SELECT number, state, value FROM trials LEFT JOIN trial_values USING (trial_id)"
        " ORDER BY number",
    )
    assert rows == [(0, "COMPLETE", 0.5), (1, "PRUNED", 1.9), (2, "PRUNED", 1.9)]
    # Each step once, also of the point that ended by itself.
    told = _rows(home, "SELECT number, step FROM trials JOIN trial_intermediate_values"
                       " USING (trial_id) ORDER BY number, step")  # fmt: skip
    assert told == [(number, step) for number in range(3) for step in range(1, 10)]
    best = json.loads(home.stoker("results", "best", "s", "--minimize", "loss", "--json"))
    assert best["best"][0]["id"] == 1


def test_a_wandb_file_with_bayes_and_hyperband_is_a_search_that_stops_early(
    home: StokerHome,
) -> None:
    (home.work / "sweep.yaml").write_text(
        "method: bayes\nrun_cap: 3\nname: s\nproject: mine\n"
        "metric: {name: loss, goal: minimize}\n"
        "early_terminate: {type: hyperband, min_iter: 3, max_iter: 5, eta: 2, strict: true}\n"
        "parameters: {x: {values: [1, 2, 3]}, y: {min: 0.0, max: 1.0}}\n"
        "command: [sh, train.sh]\n"
    )
    (home.work / "train.sh").write_text(TRAIN)
    home.start(gpus="0")
    said = home.cli("sweep", "-f", "sweep.yaml", "--max-running", "1", "--grace", "1s")
    assert said.out == "s\n"
    assert "ignored in sweep.yaml: early_terminate.strict, project" in said.err
    assert _over(home)["over"] == "all trials were made"
    assert Counter(job["state"] for job in home.jobs().values()) == {"succeeded": 1, "stopped": 2}
    assert "(hyperband)" in home.job(2)["reason"]
    [search] = home.call("searches", name="s")["searches"]
    stopping = {"rule": "hyperband", "min_steps": 3, "max_steps": 5, "reduction": 2}
    assert search["spec"]["stopping"] == stopping


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--minimize", "loss", "--stop-early", "ahsa"), "did you mean asha?"),
        (("--minimize", "loss", "--min-steps", "3"), "--min-steps is about --stop-early"),
        (("--stop-early", "asha"), "--stop-early is about a search"),
        (("--min-steps", "3"), "--min-steps is about a search"),
        (
            ("--minimize", "loss", "--maximize", "acc", "--stop-early", "asha"),
            "--stop-early can't choose between several goals",
        ),
        (
            ("--minimize", "loss", "--repeat", "seed=2", "--stop-early", "asha"),
            "--stop-early compares single runs",
        ),
    ],
)
def test_early_stopping_that_makes_no_sense_is_refused_in_one_line(
    home: StokerHome, words: tuple[str, ...], said: str
) -> None:
    ran = home.cli("sweep", "x=uniform(0,1)", "--samples", "3", *words, "--", "true")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err
