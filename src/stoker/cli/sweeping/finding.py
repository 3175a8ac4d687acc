"""Which point was best: the work behind `stoker results` and `stoker results best`."""

from __future__ import annotations

import gc
import itertools
from typing import Any

from stoker.api.client import Client
from stoker.cli.options import Args, print_json
from stoker.cli.selection import selected
from stoker.cli.sweeping.result_rows import (
    MARK_SO_FAR,
    SO_FAR,
    as_table,
    best_page,
    shown_metrics,
)
from stoker.cli.sweeping.results import csv_text, text_of
from stoker.errors import NotFound, UsageError
from stoker.metrics.gathering import Question, Sources, gather, objectives_of
from stoker.metrics.importance import importances
from stoker.metrics.names import goal_of
from stoker.metrics.result_columns import as_json, columns_of, row_as_json
from stoker.metrics.results import Objective, ResultTable, arranged, only_objective
from stoker.submission.again import add_again
from stoker.text.terminal import Column, escaped, has_terminal, out, say, table_of_columns


def results(args: Args) -> None:
    """Show the results of a sweep, a group, or some jobs."""
    if args["csv"] and args["json"]:
        raise UsageError("--csv and --json exclude each other", "choose one")
    gc.disable()  # All that is made here is needed to the end.
    with Client() as client:
        table = _found(client, args, _objectives(args))
    if args["importance"]:
        _show_importance(table, args)
        return
    rows = arranged(table, args["sort"], args["reverse"], args["top"])
    if args["json"]:
        print_json(as_json(table, rows))
    elif args["csv"]:
        columns = columns_of(table, rows)
        cells = ([_cell(value) for value in row] for row in zip(*columns.values(), strict=True))
        lines = itertools.chain([list(columns)], cells)
        out(csv_text(lines, for_terminal=has_terminal()))
    else:
        shown = shown_metrics(table, args["metric"])
        out(as_table(table, rows, shown))
        _say_more(table, len(rows), shown)


def _show_importance(table: ResultTable, args: Args) -> None:
    """How much each parameter matters for the first objective, or the only metric that tells."""
    wanted = table.objectives[0] if table.objectives else only_objective(table.metrics)
    values = [row.metrics[wanted.name].best for row in table.rows]
    found = importances([row.params for row in table.rows], values, table.varied)
    shares = [(one.name, None if one.share is None else round(one.share, 3)) for one in found.of]
    if args["json"]:
        of = [{"parameter": name, "importance": share} for name, share in shares]
        print_json({"metric": wanted.name, "points": found.points, "importance": of})
    elif args["csv"]:
        lines = itertools.chain([["parameter", "importance"]], ([a, _cell(b)] for a, b in shares))
        out(csv_text(lines, for_terminal=has_terminal()))
    else:
        titles = [Column("PARAMETER", least=5), Column("IMPORTANCE", right=True)]
        said = ["?" if share is None else f"{share:.0%}" for _, share in shares]
        out(table_of_columns(titles, [[escaped(name) for name, _ in shares], said], [None, None]))
        hint = "; so few points are but a hint" if found.is_rough else ""
        points = f"{found.points} point{'' if found.points == 1 else 's'}"
        say(f"for {wanted.goal} {escaped(wanted.name)}, by {points}{hint}")


def best(args: Args) -> None:
    """Show the best point, and how to run it again."""
    with Client() as client:
        asked = _objectives(args)
        table = _found(client, args, asked)
        if not asked and table.objectives:  # those of a search
            asked = table.objectives
        elif not asked:
            asked = [only_objective(table.metrics)]
            way = "maximized" if asked[0].goal == "max" else "minimized"
            say(f"stoker: {asked[0].name} is taken to be {way}; --minimize and --maximize say more")
            table = _found(client, args, asked)
        rows = table.best
        if not rows:
            raise NotFound(table.why_no_best, "`stoker results` shows what there is")
        if not table.is_settled:
            say(f"stoker: {SO_FAR}")
        ids = [str(row.id) for row in rows]
        told = client.call("show", select={"ids": ids}, env=True)["jobs"]
        jobs = {job["id"]: job for job in told}
    if args["json"]:
        print_json({"best": [row_as_json(row) | _of_job(jobs[row.id]) for row in rows]})
        return
    out("\n".join(best_page(row, asked, jobs[row.id]) for row in rows))


def _of_job(job: dict[str, Any]) -> dict[str, Any]:
    """What is to be known of the best job beside its results."""
    return {name: job[name] for name in ("command", "cwd", "log")} | {"run_again": add_again(job)}


def _objectives(args: Args) -> list[Objective]:
    return objectives_of(args["minimize"], args["maximize"])


def _found(client: Client, args: Args, objectives: list[Objective]) -> ResultTable:
    """The table of what was named."""
    sources = Sources.said(args["metric"], args["metrics_from"])
    select = selected({**args, "id": []})
    question = Question(args["sweep"], select, objectives, sources, args["repeat"], args["single"])
    return gather(client.call, question, say_that_it_reads)


def say_that_it_reads(unread: int) -> None:
    """Tell why it takes a moment."""
    say(f"{unread} {'log is' if unread == 1 else 'logs are'} still to be read")


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else text_of(value)


def _say_more(table: ResultTable, shown_rows: int, shown: list[str]) -> None:
    """What the table leaves out, or could show."""
    count = len(table.rows)
    parts = [f"{shown_rows} of {count}" if shown_rows < count else f"{count}"]
    parts[0] += " result" if count == 1 else " results"
    hidden = [name for name in table.metrics if name not in shown]
    if hidden:
        names = ", ".join(hidden[:5]) + (" …" if len(hidden) > 5 else "")
        parts.append(f"{len(hidden)} more metrics ({names}): --metric NAME shows one")
    if not table.metrics:
        parts.append("no metrics; `stoker metrics --help` says what is understood")
    elif not table.objectives:
        told = next((name for name in table.metrics if goal_of(name)), table.metrics[0])
        option = "--maximize" if goal_of(told) == "max" else "--minimize"
        parts.append(f"{option} {told} marks the best")
    elif not table.best:
        parts.append(escaped(table.why_no_best))
    elif not table.is_settled:
        parts.append(f"{MARK_SO_FAR}: {SO_FAR}")
    say("; ".join(parts))
