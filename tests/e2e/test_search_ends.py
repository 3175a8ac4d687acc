"""How a search ends before its last trial: its points that still run are awaited and told."""

from __future__ import annotations

from typing import Any

import pytest

from stoker_home import StokerHome
from waiting import eventually

SPACE = ("x=uniform(0,1)", "--minimize", "loss", "--name", "s", "--max-running", "3")
# The first point ends at once; the others, which are better, when the file is there.
TRAIN = """\
if [ $STOKER_JOB_ID != 1 ]; then
  echo loss=0.$STOKER_JOB_ID
  trap 'exit 0' TERM
  until [ -e go ]; do sleep 0.05; done
else
  until [ -e first ]; do sleep 0.05; done
  echo loss=1
fi
"""


@pytest.fixture
def begun(home: StokerHome) -> StokerHome:
    """Three points of a search run."""
    home.start(gpus="0-3")
    (home.work / "train.sh").write_text(TRAIN)
    home.stoker("sweep", *SPACE, "--until", "loss < 2", "--", "sh", "train.sh", "{x}")
    eventually(lambda: _running(home) == 3, "three points run")
    return home


def _running(home: StokerHome) -> int:
    return sum(job["state"] == "running" for job in home.jobs().values())


def _kept(home: StokerHome) -> dict[str, Any]:
    [search] = home.call("searches", name="s")["searches"]
    found: dict[str, Any] = search
    return found


def test_points_that_run_when_a_value_is_good_enough_are_told_though_the_daemon_is_killed(
    begun: StokerHome,
) -> None:
    (begun.work / "first").touch()
    said = "ends: loss is good enough; 2 points still run\n"
    eventually(lambda: said in begun.stoker("why", "s"), "it says what it waits for")
    begun.kill_daemon()
    begun.start(gpus="0-3")
    assert _kept(begun)["state"] == "running"
    (begun.work / "go").touch()
    assert begun.cli("wait", "--group", "s").code == 0
    kept = _kept(begun)
    assert (kept["state"], kept["progress"]["over"]) == ("ended", "loss is good enough")
    assert kept["progress"]["best"] == [[1, 0.2]], "the best ended after the search was to end"
    assert (kept["progress"]["trials"], kept["progress"]["told"]) == (3, 3)


def test_points_that_a_cancelled_search_had_are_told(begun: StokerHome) -> None:
    begun.stoker("cancel", "--group", "s")
    begun.cli("wait", "--group", "s")
    kept = _kept(begun)
    assert (kept["state"], kept["progress"]["over"]) == ("ended", "it was cancelled")
    assert (kept["progress"]["trials"], kept["progress"]["told"]) == (3, 3)
    assert begun.stoker("why", "s").endswith("ended: it was cancelled\n")


def test_a_search_without_a_number_of_trials_names_none(begun: StokerHome) -> None:
    eventually(lambda: "search s: trial 3, " in begun.stoker("why", "s"), "three were chosen")
    again = ("--until", "loss < 2", "--", "sh", "train.sh", "{x}")
    assert "a search, 3 made before;" in begun.cli("sweep", *SPACE, *again).err


def test_a_search_whose_searcher_can_not_work_is_ended_by_cancel(home: StokerHome) -> None:
    home.start(gpus="0")
    home.call("search_start", name="s", spec={})
    assert "no more points of s" in home.cli("cancel", "--group", "s").err
    eventually(lambda: _kept(home)["state"] == "ended", "it is given up", timeout_s=60)
