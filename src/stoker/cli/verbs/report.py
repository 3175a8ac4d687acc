"""`stoker report`: a job tells its metrics, from a shell script."""

from __future__ import annotations

from stoker.cli.options import Args, Positional, Verb
from stoker.metrics.reporting import VARIABLE, report_all
from stoker.quantities import quoted
from stoker.text.terminal import say


def report(args: Args) -> None:
    """Record metrics. What is wrong is told, but ends no script: its exit code is 0."""
    metrics: dict[str, object] = {}
    for word in args["metric"]:
        name, equals, value = word.partition("=")
        try:
            number = float(value)
        except ValueError:
            equals = ""
        if not (equals and name):
            say(f"stoker report: {quoted(word)} is no NAME=NUMBER, and is left out")
            continue
        metrics[name] = number
    report_all(metrics)


VERB = Verb(
    "report",
    "record metrics of the job that this is called in",
    run=report,
    excused_by=VARIABLE,
    positionals=(
        Positional("METRIC", "NAME=NUMBER; step=N says when it was", many=True, dashes=True),
    ),
    examples=(("stoker report step=3 loss=0.31", "in the script of a job"),),
    notes=(
        "It appends a line to the file $STOKER_METRICS of the attempt. Outside of a job it does "
        "nothing. In a job it never fails, so that it never ends a script: what is wrong with its "
        "arguments is one line on stderr, and its exit code is 0. In Python: "
        "`stoker.report(step=3, loss=0.31)`.",
    ),
)
