"""Curves of metrics for the page: of one job, of a sweep's points, of jobs that are compared."""

from __future__ import annotations

import asyncio
from typing import Any

from stoker.metrics.gathering import options_said
from stoker.metrics.names import goal_of, in_likely_order
from stoker.metrics.results import varied_names
from stoker.web import bodies
from stoker.web.link import Link

PATIENCE_MS = 1_000  # What is not read by then comes with the next question.
_POINTS_OF_SWEEP = 150  # of each curve: more can't be told apart among many

Answer = dict[str, Any]


async def of_job(link: Link, job_id: int, attempt: int | None) -> Answer:
    """All metrics of an attempt with their curves, the most telling first."""
    fields = {"job_id": job_id, "attempt": attempt, "patience_ms": PATIENCE_MS}
    answer = await link.call("curve", **fields)
    by_name = {curve["name"]: curve for curve in answer["curves"]}
    ordered = [{**by_name[name], "goal": goal_of(name)} for name in in_likely_order(by_name)]
    return _answer({**answer, "curves": ordered})


async def of_sweep(link: Link, question: bodies.SweepCurvesQuestion) -> Answer:
    """One metric of the points of a sweep."""
    fields = {"sweep": question.name, "most": question.most, "points": _POINTS_OF_SWEEP}
    return await _curves(link, question, fields)


async def compared(link: Link, question: bodies.CompareQuestion) -> Answer:
    """Jobs with their parameters, those that vary, and one of their metrics."""
    ids = list(dict.fromkeys(question.id))
    select = {"ids": [str(job_id) for job_id in ids]}
    listed, curves = await asyncio.gather(
        link.call("list", select=select, all=True),
        _curves(link, question, {"ids": ids, "most": len(ids)}),
    )
    jobs = {job["id"]: job for job in listed["jobs"]}
    runs = [_run(jobs[job_id]) for job_id in ids if job_id in jobs]
    return {"runs": runs, "varied": varied_names([run["params"] for run in runs]), **curves}


async def _curves(link: Link, question: bodies.MetricShown, fields: dict[str, Any]) -> Answer:
    answer = await link.call(
        "curves", name=question.metric, goal=question.goal, patience_ms=PATIENCE_MS, **fields
    )
    answer["metric"] = answer.pop("name")
    return _answer(answer)


def _answer(answer: Answer) -> Answer:
    return {"warnings": [], **answer}


def _run(job: dict[str, Any]) -> dict[str, Any]:
    params = job["params"] or options_said(job["argv"], job["shell"])
    about = ("id", "state", "name", "command", "group", "started_at_ms", "ended_at_ms")
    return {**{name: job[name] for name in about}, "params": params}
