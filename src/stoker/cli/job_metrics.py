"""Metrics of jobs beside what else is shown of them: in `show`, `ls` and `sweep show`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stoker.api.client import Client
from stoker.cli.options import Json
from stoker.errors import Failed
from stoker.metrics.asking import Curve, Summary, curves_in, metrics_of
from stoker.metrics.names import no_metric
from stoker.text.curve import curve_rows
from stoker.text.jobs import Job
from stoker.text.terminal import (
    Column,
    escaped,
    has_terminal,
    speaks_unicode,
    table,
    terminal_width,
)

_CURVE = 32  # columns of a small curve
_MOST_SHOWN = 12
_SHOW_WAITS_MS = 1000  # for a log that was not read yet


def section(client: Client, job: Job) -> str:
    """The metrics of one job below its page: last, lowest, highest and, on a terminal, a curve."""
    if not job["attempt"]:
        return ""
    try:
        answer = client.call("curve", job_id=job["id"], patience_ms=_SHOW_WAITS_MS)
    except Failed as error:  # All else about the job is known.
        return f"  metrics\n    {escaped(error.message)}\n"
    if answer["unread"]:
        return f"  metrics\n    still to be read; `stoker metrics {job['id']}` waits for them\n"
    curves = curves_in(answer)
    if not curves:
        return ""
    more = len(curves) - _MOST_SHOWN
    note = f"    and {more} more: `stoker metrics {job['id']}`\n" if more > 0 else ""
    return "  metrics\n" + _table(curves[:_MOST_SHOWN]) + note


def _table(curves: Sequence[Curve]) -> str:
    columns = [
        Column("METRIC", lambda one: one.summary.name, "bold", least=8),
        Column("LAST", lambda one: number_text(one.summary.last), right=True),
        Column("AT", lambda one: number_text(one.summary.last_step), right=True),
        Column("LOWEST", lambda one: number_text(one.summary.min), right=True),
        Column("HIGHEST", lambda one: number_text(one.summary.max), right=True),
    ]
    if has_terminal() and speaks_unicode():
        width = min(_CURVE, max(8, (terminal_width() or 80) // 3))
        columns.append(Column("CURVE", lambda one: "".join(curve_rows(one.points, width)), "cyan"))
    return table(columns, curves, indent="    ")


def last_values(
    client: Client, ids: Iterable[int], names: Sequence[str], select: Json | None = None
) -> dict[str, dict[int, float]]:
    """The last value of each of these metrics, by job; NotFound for one that none of them has.

    `select`: the jobs as a request names them, if that is shorter than their ids.
    """
    wanted = set(ids)
    if not wanted:
        return {name: {} for name in names}
    found = _of(metrics_of(client.call, select or {"ids": [str(one) for one in wanted]}), wanted)
    there = list(dict.fromkeys(one.name for one in found))
    for name in names:
        if there and name not in there:
            raise no_metric(name, there)
    return {name: {one.job: one.last for one in found if one.name == name} for name in names}


def _of(found: Iterable[Summary], wanted: set[int]) -> list[Summary]:
    return [one for one in found if one.job in wanted]


def number_text(number: float | None) -> str:
    """A number as short as it may be read."""
    return "" if number is None else f"{number:.5g}"
