"""`stoker results`: which point was best; `results best`.

Only the tables are here, so that help and completion load nothing else.
"""

from __future__ import annotations

from stoker import quantities
from stoker.cli.metric_options import METRIC, METRICS_FROM
from stoker.cli.options import JSON, Args, Option, Positional, Verb
from stoker.cli.selection import GROUP, NAME
from stoker.quantities import plain


def _results(args: Args) -> None:
    from stoker.cli.sweeping.finding import results

    results(args)


def _best(args: Args) -> None:
    from stoker.cli.sweeping.finding import best

    best(args)


_WHICH = Positional(
    "SWEEP", "a sweep's name, last (the newest sweep), or job ids: 7, 3-9", plain, many=True,
    optional=True,
)  # fmt: skip
_SHARED = (
    GROUP,
    NAME,
    Option("minimize", "the metric of which the lowest value is best; may be repeated", "METRIC",
           repeat=True),
    Option("maximize", "the metric of which the highest value is best; may be repeated", "METRIC",
           repeat=True),
    METRIC,
    METRICS_FROM,
    Option("repeat", "put together the runs that differ only in this parameter (default: that of "
           "the sweep's --repeat)", "PARAMETER"),
    Option("single", "one row per run, also where points were repeated"),
)  # fmt: skip

_BEST = Verb(
    "results best",
    "show the best point of a sweep: its value, the command to run it again, its log",
    run=_best,
    positionals=(_WHICH,),
    options=(*_SHARED, JSON),
    examples=(
        ("stoker results best last --minimize val_loss", "of the newest sweep"),
        ("stoker results best last --minimize val_loss --json | jq -r '.best[0].run_again'",
         "for scripts"),
    ),
    notes=(
        "If it is not said what is best, and only one metric has a name that tells it (loss, acc, "
        "...), that one is taken.",
        "With several objectives all points are shown that no other point is better than (the "
        "Pareto front).",
    ),
)  # fmt: skip

VERB = Verb(
    "results",
    "compare the jobs of a sweep by their parameters and metrics; mark the best",
    run=_results,
    positionals=(_WHICH,),
    options=(
        *_SHARED,
        Option("sort", "order the rows by a column: a parameter, a metric (best first), `last "
               "METRIC`, or id, state, time, gpus, runs, name", "COLUMN"),
        Option("reverse", "the other way round"),
        Option("top", "show only the first N rows", "N",
               quantities.number_within(1, 1_000_000)),
        Option("importance", "show how much each parameter matters for the metric, not the rows"),
        Option("csv", "print CSV instead of a table"),
        JSON,
    ),
    verbs=(_BEST,),
    examples=(
        ("stoker results last --minimize val_loss", "the newest sweep, the best point first"),
        ("stoker results lr-search --maximize acc --top 5", "the five best points"),
        ("stoker results --group night --sort time --csv > runs.csv", "for a spreadsheet"),
        ("stoker results 3-9 --minimize loss --minimize latency", "those that no other is better "
         "than in both"),
        (r"stoker results last --metric 'end=final loss (\S+)' --minimize end",
         "a metric in your own words, after the fact"),
        ("stoker results best last --minimize val_loss", "the best point, and how to run it again"),
    ),
    notes=(
        "A metric has two columns: its last value and, as `min loss` or `max acc`, its best one; "
        "AT is the step of that. If a name does not tell which is better, say --minimize or "
        "--maximize. nan is never the best. A star marks the best row.",
        "Runs of a point that was repeated (`stoker sweep --repeat seed=3`) are one row: the mean "
        "of their values, ± the standard deviation, and the number of RUNS. ID is the best of "
        "them.",
        "--importance is the share of the order of the points, by the best value of the metric, "
        "that goes along with a parameter alone, less what chance would explain. What parameters "
        "do only together is not in it, and of few points it is a hint.",
        "Only parameters that vary have a column. Jobs that are not of a sweep are compared by the "
        "options in their commands. Of a point that was run more than once, the latest job counts.",
    ),
)  # fmt: skip
