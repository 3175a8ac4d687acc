"""`stoker metrics`: the numbers that jobs print, report or write to files."""

from __future__ import annotations

import os

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Json, Option, Verb, print_json
from stoker.cli.selection import GROUP, IDS, IDS_NOTE, NAME, required
from stoker.errors import NotFound, UsageError
from stoker.metrics.patterns import PATIENCE_S, MetricPattern, TooSlow, read_pattern
from stoker.metrics.reading import Metrics, of_files, of_log, of_reports
from stoker.metrics.series import Point, Series
from stoker.output_files import filled
from stoker.text.jobs import Job
from stoker.text.logfile import LogFile
from stoker.text.terminal import Column, escaped, out, table


def metrics(args: Args) -> None:
    """Show the metrics of jobs."""
    select = required(args, "metrics")
    patterns = [read_pattern(text) for text in args["metric"] if "=" in text]
    wanted = [text.partition("=")[0].strip() for text in args["metric"]]
    with Client() as client:
        jobs: list[Job] = client.call("show", select=select)["jobs"]
    rows: list[Json] = []
    names: dict[str, None] = {}
    for job in jobs:
        found = _of_job(job, patterns, args["metrics_from"]).by_name
        names |= dict.fromkeys(found)
        shown = [name for name in found if not wanted or name in wanted]
        rows += [{"id": job["id"], "name": name, "series": found[name]} for name in shown]
    for name in wanted:
        if name not in names:
            raise NotFound(f"no metric is called {escaped(name)!r}", _there_are(list(names)))
    if args["json"]:
        print_json({"metrics": [_json(row) for row in rows]})
    elif rows:
        out(table(_COLUMNS, rows))
    else:
        raise NotFound("there are no metrics", "`stoker metrics --help` says what is understood")


def _of_job(job: Job, patterns: list[MetricPattern], source: str | None) -> Metrics:
    """The series of all attempts, one after the other."""
    whole = Metrics()
    for attempt in job["attempts"]:
        of_attempt = Metrics()
        for path in {attempt["log"]: None, attempt["err_log"]: None}:
            if path is not None:
                of_attempt.follow(_in_log(path, patterns))
        if source is not None:
            path = filled(source, job["id"], job["name"], attempt["attempt"])
            of_attempt.replace(of_files(os.path.join(job["cwd"], path)))
        of_attempt.replace(of_reports(attempt["dir"]))
        whole.follow(of_attempt)
    return whole


def _in_log(path: str, patterns: list[MetricPattern]) -> Metrics:
    try:
        log = LogFile(path)
    except OSError:
        return Metrics()  # It was deleted, or there is none yet.
    try:
        return of_log(log.new_pieces(), patterns)
    except TooSlow:
        raise UsageError(
            f"an expression of --metric takes more than {PATIENCE_S:g} s for a part of {path}",
            "avoid groups such as (x+)+ that can match in many ways",
        ) from None
    finally:
        log.close()


def _there_are(names: list[str]) -> str:
    if not names:
        return "there are no metrics in these jobs"
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return "there are: " + ", ".join(map(escaped, names[:20])) + more


def _number(point: Point | None) -> str:
    return "" if point is None else f"{point[1]:.6g}"


def _step(point: Point | None) -> str:
    return "" if point is None else f"{point[0]:.6g}"


_COLUMNS = (
    Column("JOB", "id", right=True),
    Column("METRIC", lambda row: escaped(row["name"]), "bold", least=12),
    Column("POINTS", lambda row: row["series"].count, right=True),
    Column("LAST", lambda row: _number(row["series"].last), right=True),
    Column("LOWEST", lambda row: _number(row["series"].best()), right=True),
    Column("AT", lambda row: _step(row["series"].best()), right=True),
    Column("HIGHEST", lambda row: _number(row["series"].best(maximize=True)), right=True),
    Column("AT", lambda row: _step(row["series"].best(maximize=True)), right=True),
)


def _json(row: Json) -> Json:
    series: Series = row["series"]
    record = series.to_record()
    kept = ("count", "not_finite", "first", "last", "lowest", "highest")
    return {"id": row["id"], "metric": row["name"], **{name: record[name] for name in kept},
            "curve": series.said_curve()}  # fmt: skip


VERB = Verb(
    "metrics",
    "show the numbers that jobs print, report or write to files",
    run=metrics,
    positionals=(IDS,),
    options=(
        NAME,
        GROUP,
        Option("metric", "only this metric; or NAME=EXPRESSION, whose first group is its value in "
               "a line of the log; may be repeated", "NAME", repeat=True),
        Option("metrics-from", "a file or directory of the job with CSV, JSON lines or event files "
               "of TensorBoard; may contain {id}, {name} and {attempt}", "PATH"),
        JSON,
    ),
    examples=(
        ("stoker metrics last", "all metrics of the newest job, with the lowest and highest value"),
        (r"stoker metrics 7 --metric 'loss=final loss (\S+)'", "what no usual form finds"),
        ("stoker metrics 3-9 --metric val_loss --metrics-from 'runs/{name}'", "from files"),
    ),
    notes=(
        IDS_NOTE,
        "Found in logs: loss=0.31, val_loss: 0.31, bars of tqdm, Lightning and Keras, the dicts of "
        "Hugging Face's Trainer, JSON lines. Step, iteration or epoch is the x axis. What a job "
        "reports itself (`stoker report`) comes before files, and files before the log.",
    ),
)  # fmt: skip
