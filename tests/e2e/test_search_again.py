"""Points of a search that run again are the same trials, and what is learned of them is right."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from stoker_home import StokerHome

# It fails until it is mended, and is put back once: the better value is that of the first part.
TRAIN = """\
[ -e mended ] || exit 3
if [ ! -e "$STOKER_CHECKPOINT_DIR/done" ]; then
  touch "$STOKER_CHECKPOINT_DIR/done"
  echo "step 1 loss=$1"
  exit 75
fi
echo "step 2 loss=9"
"""
SEARCH = ("sweep", "x=uniform(0,1)", "--minimize", "loss", "--gpus", "0", "--name", "s",
          "--requeue-on", "75")  # fmt: skip
COMMAND = ("--", "sh", "train.sh", "{x}")


@pytest.fixture
def failed(stoker: StokerHome) -> StokerHome:
    """A search of three trials which all have failed."""
    (stoker.work / "train.sh").write_text(TRAIN)
    stoker.stoker(*SEARCH, "--samples", "3", *COMMAND)
    assert stoker.cli("wait", "--group", "s").code != 0
    (stoker.work / "mended").touch()
    return stoker


def _agree(home: StokerHome, trials: int) -> str:
    """What `why` says, which is also what results, record and study say."""
    best = json.loads(home.stoker("results", "s", "--json"))["results"][0]
    value = best["metrics"]["loss"]["best"]
    said = home.stoker("why", "s").strip()
    assert f"best loss {value:.5g} at trial " in said
    assert said == f"search s: {home.cli('sweep', 'show', 's').err.splitlines()[-1]}"
    with closing(sqlite3.connect(f"{home.home.root}/studies.db")) as study:
        rows = study.execute(
            "SELECT number, state, value FROM trials LEFT JOIN trial_values USING (trial_id)"
        ).fetchall()
    values = [
        row["metrics"]["loss"]["best"]
        for row in json.loads(home.stoker("results", "s", "--sort", "id", "--json"))["results"]
    ]
    assert rows == [(n, "COMPLETE", pytest.approx(values[n])) for n in range(trials)]
    return said


def _why(home: StokerHome) -> str:
    return home.stoker("why", "s").strip()


def test_a_search_that_is_over_learns_of_points_that_were_retried(failed: StokerHome) -> None:
    assert _why(failed) == "search s: trial 3 of 3, 3 failed, ended: all trials were made"
    again = failed.cli(*SEARCH, "--samples", "3", *COMMAND)
    assert "a search of 3 trials, 3 made before, 3 of them failed; see" in again.err
    assert "add --rerun failed" in again.err
    failed.cli("wait", "--group", "s")
    failed.stoker("retry", "--group", "s")
    assert failed.cli("wait", "--group", "s").code == 0
    assert _agree(failed, 3).endswith(", ended: all trials were made")
    failed.stoker(*SEARCH, "--samples", "4", *COMMAND)
    assert failed.cli("wait", "--group", "s").code == 0
    assert "trial 4 of 4" in _agree(failed, 4)


def test_rerun_failed_runs_the_failed_points_again_under_their_numbers(failed: StokerHome) -> None:
    refused = failed.cli(*SEARCH, "--samples", "3", "--rerun", "all", *COMMAND)
    assert (refused.code, refused.out) == (2, "") and "--rerun failed" in refused.err
    again = failed.cli(*SEARCH, "--samples", "3", "--rerun", "failed", *COMMAND)
    assert "3 made before, 3 of them failed; 3 run again; see" in again.err
    assert failed.cli("wait", "--group", "s").code == 0
    _agree(failed, 3)
    nothing: dict[str, Any] = json.loads(
        failed.stoker(*SEARCH, "--samples", "3", "--rerun", "failed", "--json", *COMMAND)
    )
    assert (nothing["trials"], nothing["failed"], nothing["rerun"]) == (3, 0, 0)


def test_a_point_that_was_retried_as_the_daemon_died_is_told_by_the_next(
    failed: StokerHome,
) -> None:
    failed.stoker("pause")
    failed.stoker("retry", "--group", "s")
    failed.kill_daemon()
    with closing(sqlite3.connect(f"{failed.home.root}/stoker.db")) as database, database:
        database.execute("UPDATE searches SET state = 'ended'")  # as if it had died before that
    failed.start(gpus="0-3")
    failed.stoker("resume")
    assert failed.cli("wait", "--group", "s").code == 0
    _agree(failed, 3)
