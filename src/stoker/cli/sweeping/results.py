"""What came of sweeps: `stoker sweep show` and `stoker sweep ls`.

Sweeps may have very many points, so they come and are laid out column by column.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from stoker.api.client import Client
from stoker.cli.options import Args, print_json
from stoker.errors import NotFound, UsageError
from stoker.metrics.gathering import sweep_named
from stoker.metrics.results import title_of
from stoker.quantities import quoted
from stoker.text import duration_text, local_moment_text
from stoker.text.jobs import STATE_COLOURS, counts_colour, counts_text, in_order, iso_times, now_ms
from stoker.text.searches import search_text
from stoker.text.terminal import (
    Column,
    escaped,
    has_terminal,
    out,
    say,
    table,
    table_of_columns,
)

Sweep = dict[str, Any]


def show(args: Args) -> None:
    """Show one sweep."""
    if args["csv"] and args["json"]:
        raise UsageError("--csv and --json exclude each other", "choose one")
    with Client() as client:
        name = sweep_named(client.call, args["id"])
        sweep = client.call("sweep_table", sweep=name, in_full=args["json"])
        search = sweep.get("search")
        if not sweep["total"] and not search:
            raise NotFound(f"there is no sweep {quoted(name)}", "see `stoker sweep ls`")
        goals = [metric for metric, _ in search["objectives"]] if search else []
        sweep["values"] = _values(client, name, sweep, args["metric"], goals)
    if args["json"]:
        print_json(_as_json(name, sweep))
    elif args["csv"]:
        out(_as_csv(sweep))
    else:
        out(_as_table(sweep))
        say(_summary(sweep))
        if search:
            say(search_text(search))


def _values(
    client: Client, name: str, sweep: Sweep, metrics: list[str], goals: list[str]
) -> dict[str, list[float | None]]:
    """The last values of metrics, a column each: those asked for, or else a search's goals."""
    if not metrics and not goals:
        return {}
    from stoker.cli.job_metrics import last_values

    ids = sweep["columns"]["id"]
    try:
        found = last_values(client, ids, metrics or goals, {"group": name})
    except NotFound:
        if metrics:
            raise
        return {}  # The search itself says that there are no values.
    return {metric: [of.get(job_id) for job_id in ids] for metric, of in found.items()}


def _run_times_ms(columns: dict[str, list[Any]]) -> list[int | None]:
    """How long each point's job has run, or ran."""
    now = now_ms()
    return [
        None if began is None else max(0, (now if ended is None else ended) - began)
        for began, ended in zip(columns["started_at_ms"], columns["ended_at_ms"], strict=True)
    ]


def text_of(value: Any) -> str:
    """The value of a parameter as a person writes it."""
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else json.dumps(value, ensure_ascii=False)


def _texts(sweep: Sweep, name: str) -> list[str]:
    """The values of a parameter as text; nothing where a point does not have it."""
    texts = [text_of(value) for value in sweep["params"][name]]
    for row in sweep["absent"].get(name, ()):
        texts[row] = ""
    return texts


# ---------------------------------------------------------------------- one sweep


def _as_table(sweep: Sweep) -> str:
    names, columns = sweep["varied"], sweep["columns"]
    titles = [Column("ID", right=True), Column("STATE")]
    titles += [Column(escaped(name), least=6) for name in names]
    metrics = [title_of(name, names) for name in sweep["values"]]
    titles += [Column(escaped(name), right=True, least=6) for name in metrics]
    titles += [Column("TIME", right=True), Column("GPUS", least=4), Column("EXIT", right=True)]
    texts = [
        [str(job_id) for job_id in columns["id"]],
        columns["state"],
        *([escaped(text) for text in _texts(sweep, name)] for name in names),
        *(["" if one is None else f"{one:.5g}" for one in of] for of in sweep["values"].values()),
        ["" if ran is None else duration_text(ran) for ran in _run_times_ms(columns)],
        [",".join(gpus) for gpus in columns["gpus"]],
        [_exit(*how) for how in zip(columns["exit_code"], columns["signal"], strict=True)],
    ]
    colours: list[list[str] | None] = [None] * len(titles)
    colours[1] = [STATE_COLOURS.get(state, "") for state in columns["state"]]
    return table_of_columns(titles, texts, colours)


def _exit(code: int | None, signal: int | None) -> str:
    if signal:
        return f"signal {signal}"
    return "" if code is None else str(code)


def _summary(sweep: Sweep) -> str:
    total = sweep["total"]
    states = f": {counts_text(sweep['counts'])}" if total else ""  # A search has only begun.
    return f"{total} point{'' if total == 1 else 's'}{states}"


def _as_csv(sweep: Sweep) -> str:
    names, columns = sweep["varied"], sweep["columns"]
    own = ("id", "state", "run_time_s", "gpus", "exit_code", "signal")
    titles = [f"param_{name}" if name in own else name for name in names]
    rows = zip(
        columns["id"],
        columns["state"],
        *(_texts(sweep, name) for name in names),
        *(["" if one is None else one for one in of] for of in sweep["values"].values()),
        ["" if ran is None else f"{ran / 1000:.3f}" for ran in _run_times_ms(columns)],
        [",".join(gpus) for gpus in columns["gpus"]],
        ["" if code is None else code for code in columns["exit_code"]],
        [number or "" for number in columns["signal"]],
        strict=True,
    )
    titles += [f"metric_{name}" if name in (*own, *titles) else name for name in sweep["values"]]
    head = [*own[:2], *titles, *own[2:]]
    return csv_text(itertools.chain([head], rows), for_terminal=has_terminal())


def csv_text(rows: Iterable[Iterable[Any]], *, for_terminal: bool) -> str:
    """Rows as CSV. A file gets each text as it is, a terminal with its controls spelt out.

    What a spreadsheet would run as a formula becomes text.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if for_terminal:
        rows = ([escaped(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    writer.writerows([_neutral(cell) for cell in row] for row in rows)
    return text.getvalue()


def _neutral(cell: Any) -> Any:
    """A spreadsheet runs a text that begins like a formula; an apostrophe makes it text."""
    if isinstance(cell, str) and cell:
        first = cell[0]
        if first in "=+@\t\r" or (first == "-" and not _is_number(cell)):
            return f"'{cell}"
    return cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _as_json(name: str, sweep: Sweep) -> dict[str, Any]:
    columns = sweep["columns"]
    kept = ("id", "state", "params", "gpus", "exit_code", "signal", "reason", "command",
            "attempt", "submitted_at_ms", "started_at_ms", "ended_at_ms", "log")  # fmt: skip
    rows = zip(*(columns[key] for key in kept), strict=True)
    points = [
        iso_times(dict(zip(kept, row, strict=True)))
        | {"run_time_s": None if ran is None else ran / 1000}
        for row, ran in zip(rows, _run_times_ms(columns), strict=True)
    ]
    for metric, values in sweep["values"].items():
        for point, value in zip(points, values, strict=True):
            is_number = value is None or math.isfinite(value)
            point.setdefault("metrics", {})[metric] = value if is_number else repr(value)
    return {
        "sweep": name,
        "counts": in_order(sweep["counts"]),
        "varied": sweep["varied"],
        "points": points,
        **({"search": sweep["search"]} if sweep.get("search") else {}),
    }


# ---------------------------------------------------------------------- all sweeps


def ls(args: Args) -> None:
    """List all sweeps, the newest last."""
    with Client() as client:
        sweeps = client.call("sweeps", limit=100_000)["sweeps"][::-1]
    if args["json"]:
        listed = [
            {key: sweep[key] for key in ("sweep", "points")}
            | {"counts": in_order(sweep["counts"]), "varied": sweep["varied"]}
            for sweep in sweeps
        ]
        print_json({"sweeps": listed})
    elif not sweeps:
        say("no sweeps")
    else:
        out(_sweeps_table(sweeps))


def _sweeps_table(sweeps: Sequence[Sweep]) -> str:
    now = now_ms()
    columns = (
        Column("SWEEP", "sweep", "bold", least=8),
        Column("POINTS", "points", right=True),
        Column("STATES", lambda sweep: counts_text(sweep["counts"]), counts_colour, least=16),
        Column("PARAMETERS", lambda sweep: ", ".join(sweep["varied"]), least=10),
        Column("QUEUED", lambda sweep: local_moment_text(sweep["submitted_at_ms"], now)),
    )
    return table(columns, sweeps)
