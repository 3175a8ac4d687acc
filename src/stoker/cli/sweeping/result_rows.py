"""Results on a terminal: a table that fits it, the best row marked, and the best on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stoker.cli.job_metrics import number_text
from stoker.cli.sweeping.results import text_of
from stoker.metrics.results import Figure, Objective, Result, ResultTable, title_of
from stoker.submission.again import add_again
from stoker.text import duration_text
from stoker.text.jobs import STATE_COLOURS
from stoker.text.terminal import (
    Column,
    escaped,
    painted,
    speaks_unicode,
    table_of_columns,
    terminal_width,
    wants_colour,
)

MARK = "*"
MARK_SO_FAR = "(*)"  # of a point that has not ended
SO_FAR = "the best so far; no point has ended well with a value yet"
_WIDE = 120  # columns, in which four metrics have room, and not only two


def as_table(table: ResultTable, rows: Sequence[Result], names: Sequence[str]) -> str:
    """The rows with these metrics, as far as the terminal has room."""
    mark = MARK if table.is_settled else MARK_SO_FAR
    titles = [Column(""), Column("ID", right=True), Column("STATE", least=7)]
    texts = [
        [mark if row.is_best else "" for row in rows],
        [str(row.id) for row in rows],
        [row.state for row in rows],
    ]
    bold = ["green" if row.is_best else "" for row in rows]
    colours: list[list[str] | None] = [
        bold, bold, [STATE_COLOURS.get(row.state, "") for row in rows]
    ]  # fmt: skip

    def add(column: Column, values: list[str], colour: list[str] | None = None) -> None:
        titles.append(column)
        texts.append(values)
        colours.append(colour)

    if not table.varied:
        add(Column("NAME", least=8), [escaped(row.name or "") for row in rows])
    for name in table.varied:
        values = [text_of(row.params[name]) if name in row.params else "" for row in rows]
        add(Column(escaped(name), least=5), [escaped(value) for value in values])
    for name in names:
        _add_metric(add, table, rows, name, bold)
    if table.repeat is not None:
        add(Column("RUNS", right=True), [_runs_text(row, table) for row in rows])
    times = [row.run_time_s for row in rows]
    add(Column("TIME", right=True),
        ["" if ran is None else duration_text(round(ran * 1000)) for ran in times])  # fmt: skip
    add(Column("GPUS", least=4), [escaped(",".join(row.gpus)) for row in rows])
    return table_of_columns(titles, texts, colours)


def _runs_text(row: Result, table: ResultTable) -> str:
    """How many runs a row has, and how many of them have a value of the first objective."""
    count = len(row.ids)
    told = row.metrics[table.objectives[0].name].runs if table.objectives else count
    return f"{count}" if told in (0, count) else f"{told} of {count}"


def _add_metric(
    add: Any, table: ResultTable, rows: Sequence[Result], name: str, colours: list[str]
) -> None:
    """Its last values and, where these are others, the best ones with their steps."""
    figures = [row.metrics[name] for row in rows]
    goal = next((figure.goal for figure in figures), None)
    title = escaped(title_of(name, table.varied))
    last = [_with_spread(figure.last, figure.last_spread) for figure in figures]
    best = [_with_spread(figure.best, figure.best_spread) for figure in figures]
    is_wanted = any(one.name == name for one in table.objectives)
    add(Column(title, right=True, least=7), last, colours if is_wanted and best == last else None)
    if goal is not None and best != last and any(best):
        add(Column(f"{goal} {title}", right=True, least=7), best, colours if is_wanted else None)
        if is_wanted:
            add(Column("AT", right=True), [number_text(figure.best_step) for figure in figures])


def shown_metrics(table: ResultTable, named: Sequence[str]) -> list[str]:
    """The metrics that have a column: what was asked for, else as many as there is room for."""
    if named:
        return table.metrics
    most = 2 if (terminal_width() or _WIDE) < _WIDE else 4
    return table.metrics[: max(most, len(table.objectives))]


def _with_spread(number: float | None, spread: float | None) -> str:
    if spread is None:
        return number_text(number)
    return f"{number_text(number)} {'±' if speaks_unicode() else '+-'}{spread:.2g}"


# ---------------------------------------------------------------------- the best


def best_page(row: Result, objectives: Sequence[Objective], job: dict[str, Any]) -> str:
    """The point, its value and step, the command to run it again, its log and directory."""
    params = [f"{name}={text_of(value)}" for name, value in row.params.items()]
    facts = [("point", ", ".join(params) or job["name"] or f"job {row.id}")]
    facts += [(one.name, _value_text(row.metrics[one.name], len(row.ids))) for one in objectives]
    several = len(row.ids) > 1
    runs = f", the best of {len(row.ids)} runs" if several else ""
    facts += [
        ("job", f"{row.id} ({job['state']}{runs})"),
        ("directory", job["cwd"]),
        ("log", job["log"] or ""),
        ("command", job["command"]),
        ("run again", add_again(job)),
    ]
    width = max(len(escaped(name)) for name, _ in facts)
    lines = [
        f"{painted(escaped(name).ljust(width), 'dim', wants_colour())}  {escaped(text)}\n"
        for name, text in facts
        if text
    ]
    return "".join(lines)


def _value_text(figure: Figure, runs: int) -> str:
    value = _with_spread(figure.best, figure.best_spread)
    if runs > 1:
        told = f"{runs}" if figure.runs == runs else f"{figure.runs} of {runs}"
        return f"{value} (mean of {told} runs)"
    step = figure.best_step
    return value if step is None or math.isnan(step) else f"{value} at step {number_text(step)}"
