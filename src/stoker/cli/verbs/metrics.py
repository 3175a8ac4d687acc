"""`stoker metrics`: the numbers that jobs print, report or write to files."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.metric_options import METRIC, METRICS_FROM
from stoker.cli.options import JSON, Args, Json, Verb, print_json
from stoker.cli.selection import GROUP, IDS, IDS_NOTE, NAME, required
from stoker.errors import NotFound
from stoker.metrics.gathering import Sources, read_metrics
from stoker.metrics.names import no_metric
from stoker.metrics.series import Point, Series
from stoker.text.terminal import Column, escaped, out, table


def metrics(args: Args) -> None:
    """Show the metrics of jobs."""
    select = required(args, "metrics")
    sources = Sources.said(args["metric"], args["metrics_from"])
    wanted = sources.names
    rows: list[Json] = []
    names: dict[str, None] = {}
    with Client() as client:
        for job, found in read_metrics(client.call, select, sources):
            names |= dict.fromkeys(found.by_name)
            shown = [
                (name, one) for name, one in found.by_name.items() if name in (wanted or names)
            ]
            rows += [{"id": job["id"], "name": name, "series": one} for name, one in shown]
    for name in wanted:
        if name not in names:
            raise no_metric(name, list(names))
    if args["json"]:
        print_json({"metrics": [_json(row) for row in rows]})
    elif rows:
        out(table(_COLUMNS, rows))
    else:
        raise NotFound("there are no metrics", "`stoker metrics --help` says what is understood")


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
        METRIC,
        METRICS_FROM,
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
