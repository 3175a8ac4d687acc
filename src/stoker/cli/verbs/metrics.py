"""`stoker metrics`: the numbers that jobs print, report or write to files."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Json, Option, Verb, print_json
from stoker.cli.selection import GROUP, IDS, IDS_NOTE, NAME, required
from stoker.cli.sweeping.finding import say_that_it_reads
from stoker.errors import NotFound
from stoker.metrics.asking import Curve, Summary, curves_of, metrics_of
from stoker.metrics.gathering import Sources, read, refuse_absent_files
from stoker.metrics.series import said
from stoker.quantities import quoted, whole_number
from stoker.text.jobs import Job
from stoker.text.terminal import Column, escaped, out, table


def metrics(args: Args) -> None:
    """Show the metrics of jobs."""
    select = required(args, "metrics")
    curves: list[Curve] = []
    with Client() as client:
        if _reads_itself(args) or args["attempt"] is not None:
            jobs: list[Job] = client.call("show", select=select)["jobs"]
            if _reads_itself(args):
                refuse_absent_files(jobs, _sources(args))
            curves = [curve for job in jobs for curve in _curves(client, job, args)]
            found = [curve.summary for curve in curves]
        else:
            found = metrics_of(client.call, select, waiting=say_that_it_reads)
            for job_id in dict.fromkeys(one.job for one in found) if args["json"] else ():
                curves += curves_of(client.call, job_id)
    names = list(dict.fromkeys(one.name for one in found))
    wanted = [text.partition("=")[0].strip() for text in args["metric"]] or names
    patterns = {text.partition("=")[0].strip(): text for text in args["metric"] if "=" in text}
    for name in wanted:
        if name not in names and name in patterns:
            raise NotFound(f"--metric {quoted(patterns[name])} matches no line", _there_are(names))
        if name not in names:
            raise NotFound(f"no metric is called {escaped(name)!r}", _there_are(names))
    if args["json"]:
        print_json({"metrics": [_json(one) for one in curves if one.summary.name in wanted]})
    elif found:
        out(table(_COLUMNS, [one for one in found if one.name in wanted]))
    else:
        raise NotFound("there are no metrics", "`stoker metrics --help` says what is understood")


def _reads_itself(args: Args) -> bool:
    """Whether there is more to look for than what was said when the jobs were queued."""
    return args["metrics_from"] is not None or any("=" in text for text in args["metric"])


def _curves(client: Client, job: Job, args: Args) -> list[Curve]:
    """The metrics of one attempt of a job, by default of its latest run."""
    if not _reads_itself(args):
        return curves_of(client.call, job["id"], args["attempt"])
    return read(job, _sources(args), args["attempt"])


def _sources(args: Args) -> Sources:
    return Sources.said(args["metric"], args["metrics_from"])


def _there_are(names: list[str]) -> str:
    if not names:
        return "there are no metrics in these jobs"
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return "there are: " + ", ".join(map(escaped, names[:20])) + more


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def _attempt(one: Summary) -> str:
    return "" if one.attempt == 1 else str(one.attempt)


_COLUMNS = (
    Column("JOB", lambda one: one.job, right=True),
    Column("METRIC", lambda one: escaped(one.name), "bold", least=12),
    Column("ATTEMPT", _attempt, right=True),
    Column("POINTS", lambda one: one.count, right=True),
    Column("LAST", lambda one: _number(one.last), right=True),
    Column("LOWEST", lambda one: _number(one.min), right=True),
    Column("AT", lambda one: _number(one.min_step), right=True),
    Column("HIGHEST", lambda one: _number(one.max), right=True),
    Column("AT", lambda one: _number(one.max_step), right=True),
)


def _json(curve: Curve) -> Json:
    one = curve.summary
    return {
        "id": one.job,
        "attempt": one.attempt,
        "metric": one.name,
        "count": one.count,
        "not_finite": curve.not_finite,
        "first": said(curve.first),
        "last": said((one.last_step, one.last)),
        "lowest": _pair(one.min_step, one.min),
        "highest": _pair(one.max_step, one.max),
        "curve": [said(point) for point in curve.points],
    }


def _pair(step: float | None, value: float | None) -> list[float | str] | None:
    return None if step is None or value is None else said((step, value))


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
        Option("attempt", "of this attempt (default: the latest that has metrics)", "N",
               lambda text: whole_number(text, 1, 10**9, "attempt")),
        JSON,
    ),
    examples=(
        ("stoker metrics last", "all metrics of the newest job, with the lowest and highest value"),
        (r"stoker metrics 7 --metric 'loss=final loss (\S+)'", "what no usual form finds"),
        ("stoker metrics 3-9 --metric val_loss --metrics-from 'runs/{name}'", "from files"),
        ("stoker metrics 7 --attempt 1", "those of its first attempt"),
    ),
    notes=(
        IDS_NOTE,
        "Found in logs: loss=0.31, val_loss: 0.31, bars of tqdm, Lightning and Keras, the dicts of "
        "Hugging Face's Trainer, JSON lines. Step, iteration or epoch is the x axis. What a job "
        "reports itself (`stoker report`) comes before files, and files before the log.",
    ),
)  # fmt: skip
