"""Jobs report metrics to a file of their attempt, which goes when they are removed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from stoker_home import StokerHome
from waiting import eventually

CLI = f"{sys.executable} -m stoker report"


def reported(stoker: StokerHome, job_id: int, attempt: int) -> list[dict[str, Any]]:
    path = Path(stoker.home.attempts) / "0000" / f"{job_id}.{attempt}.metrics"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_attempt_has_its_own_reports_from_shell_and_python(stoker: StokerHome) -> None:
    script = (
        f"{CLI} step=$STOKER_ATTEMPT loss=0.5 && {CLI} loss= oops && "
        f"{sys.executable} -c 'import stoker; stoker.report(step=9, acc=1)' && "
        "[ $STOKER_ATTEMPT = 2 ]"
    )
    ran = stoker.cli("run", "--gpus", "0", "--retries", "1", "--", "sh", "-c", script)
    assert ran.code == 0, ran.err
    assert "'loss=' is no NAME=NUMBER" in ran.err and "oops" in ran.err
    for attempt in (1, 2):
        first, second = reported(stoker, 1, attempt)
        assert (first["step"], first["metrics"]) == (attempt, {"loss": 0.5})
        assert (second["step"], second["metrics"]) == (9, {"acc": 1})
    assert stoker.cli("rm", "1").code == 0
    attempts = Path(stoker.home.attempts)
    eventually(lambda: not list(attempts.rglob("*.metrics")), "they are deleted with the job")


def test_a_job_that_is_queued_by_a_job_reports_to_its_own_file(stoker: StokerHome) -> None:
    inner = f"{sys.executable} -m stoker add --gpus 0 -- sh -c 'echo $STOKER_METRICS'"
    outer = stoker.cli("run", "--gpus", "0", "--", "sh", "-c", inner)
    assert outer.code == 0, outer.err
    assert stoker.cli("wait", "2").code == 0
    assert stoker.cli("logs", "2").out.strip().endswith("/2.1.metrics")


def test_a_job_without_reports_has_no_file(stoker: StokerHome) -> None:
    assert stoker.cli("run", "--gpus", "0", "--", "true").code == 0
    assert list(Path(stoker.home.attempts).rglob("*.metrics")) == []


def test_outside_of_a_job_a_report_does_nothing_and_starts_no_daemon(stoker: StokerHome) -> None:
    stoker.env["STOKER_HOME"] = str(stoker.root / "other")
    ran = stoker.cli("report", "loss=1")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert not (stoker.root / "other").exists()
