"""`stoker metrics`: what jobs printed, reported and wrote, after the fact."""

from __future__ import annotations

import json
import sys
from typing import Any

from stoker_home import StokerHome

TRAIN = "for i in 1 2 3; do echo step $i loss=0.$((5-i)); done; echo the end was at 0.125"


def metrics(stoker: StokerHome, *words: str) -> dict[str, dict[str, Any]]:
    ran = stoker.cli("metrics", *words, "--json")
    assert ran.code == 0, ran.err
    return {one["metric"]: one for one in json.loads(ran.out)["metrics"]}


def queued(stoker: StokerHome, script: str, *options: str) -> None:
    done = stoker.cli("add", "--gpus", "0", *options, "--", "sh", "-c", script)
    assert done.code == 0, done.err
    assert stoker.cli("wait", "last").code == 0


def test_a_log_is_understood_after_the_fact(stoker: StokerHome) -> None:
    queued(stoker, TRAIN)
    found = metrics(stoker, "1")
    assert set(found) == {"loss"}
    assert found["loss"]["curve"] == [[1, 0.4], [2, 0.3], [3, 0.2]]
    assert found["loss"]["lowest"] == [3, 0.2]
    shown = stoker.cli("metrics", "1").out
    assert "loss" in shown and "0.2" in shown
    own = metrics(stoker, "1", "--metric", r"end=end was at (\S+)")
    assert own["end"]["last"][1] == 0.125


def test_a_metric_that_never_appears_is_told_with_the_names_that_do(stoker: StokerHome) -> None:
    queued(stoker, TRAIN)
    missing = stoker.cli("metrics", "1", "--metric", "val_loss")
    assert missing.code == 3
    assert "val_loss" in missing.err and "there are: loss" in missing.err


def test_an_expression_that_backtracks_for_ever_ends_with_words(stoker: StokerHome) -> None:
    queued(stoker, f"echo {'x' * 60}!")
    slow = stoker.cli("metrics", "1", "--metric", r"loss=(x+x+)+(\d)")
    assert slow.code == 2 and "takes more than" in slow.err


def test_each_attempt_has_its_own_series_and_the_latest_is_shown(stoker: StokerHome) -> None:
    queued(stoker, 'echo "step $STOKER_ATTEMPT loss=$STOKER_ATTEMPT"; [ $STOKER_ATTEMPT = 2 ]',
           "--retries", "1")  # fmt: skip
    latest = metrics(stoker, "1")["loss"]
    assert (latest["attempt"], latest["curve"]) == (2, [[2, 2]])
    first = metrics(stoker, "1", "--attempt", "1")["loss"]
    assert (first["attempt"], first["curve"]) == (1, [[1, 1]])


def test_reports_and_files_stand_for_what_the_log_says(stoker: StokerHome) -> None:
    script = (
        "mkdir -p runs/mine; printf 'step,acc,loss\\n1,0.5,8\\n' > runs/mine/metrics.csv; "
        f"echo loss=9; {sys.executable} -m stoker report step=7 loss=0.25"
    )
    queued(stoker, script, "--name", "mine")
    found = metrics(stoker, "1", "--metrics-from", "runs/{name}")
    assert found["acc"]["curve"] == [[1, 0.5]]
    assert found["loss"]["curve"] == [[7, 0.25]]


def test_what_a_hostile_job_prints_does_no_harm_to_a_terminal(stoker: StokerHome) -> None:
    queued(stoker, r"""printf '"\302\233evil": 3\n"__proto__": nan\n<b>x=1\n'""")
    shown = stoker.cli("metrics", "1")
    assert "\x9b" not in shown.out and "__proto__" in shown.out
