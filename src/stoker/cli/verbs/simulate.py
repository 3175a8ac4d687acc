"""`stoker simulate`: what if there were more GPUs, another policy, or memory were learned?"""

from __future__ import annotations

from stoker.cli.options import JSON, Args, Option, Verb, print_json
from stoker.quantities import duration_ms, number_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stoker.sim.whatif import Played, Question, WhatIf

_DAY_MS = 86_400_000
_REDRAW_S = 0.2


def simulate(args: Args) -> None:
    """Play a trace or one's own jobs, and show what they came to."""
    from stoker.sim.whatif import what_if
    from stoker.text.terminal import out, say

    bar = _Bar()
    try:
        answer = what_if(_question(args), bar.show)
    finally:
        bar.clear()
    for count, what in _left_out(answer, args):
        say(f"stoker simulate: {count:,} {what}")
    if args["picture"]:
        from stoker.wholefile import write_whole

        write_whole(args["picture"], answer.picture().encode(), 0o644)
    if args["json"]:
        print_json(
            {
                "trace": answer.trace.kind,
                "jobs": len(answer.trace.jobs),
                "left_out": dict(answer.trace.left_out),
                "ways": [_as_data(one) for one in answer.plays],
            }
        )
    else:
        out(_table(answer) + _compared(answer.plays))


def _question(args: Args) -> Question:
    import time
    from pathlib import Path

    from stoker.api.paths import Home
    from stoker.errors import UsageError
    from stoker.sim.whatif import Question

    if args["trace"] and args["history"] is not None:
        raise UsageError("--trace and --history can't both be played", "name one of them")
    trace, database, since_ms = None, None, 0
    if args["trace"]:
        trace = Path(args["trace"])
    else:
        database = Path(Home.from_environment().database)
        since_ms = int(time.time() * 1000) - (args["history"] or 30 * _DAY_MS)
    return Question(
        trace, database, since_ms, args["gpus"], args["policy"], args["mem"], args["seed"] or 0
    )


def _left_out(answer: WhatIf, args: Args) -> list[tuple[int, str]]:
    said = [
        (count, f"{'row' if count == 1 else 'rows'} left out: {why}")
        for why, count in answer.trace.left_out.items()
    ]
    if answer.unmeasured and "auto" in (args["mem"] or ["auto"]):
        one = answer.unmeasured == 1
        what = "job shares no GPU" if one else "jobs share no GPU"
        why = "its memory is not known" if one else "their memory is not known"
        said.append((answer.unmeasured, f"{what} with --mem auto: {why}"))
    return said


def _table(answer: WhatIf) -> str:
    from stoker.text import duration_text
    from stoker.text.terminal import Column, table

    def time(name: str) -> Callable[[Played], str]:
        return lambda one: duration_text(getattr(one.figures, name))

    def number(name: str, digits: int = 0) -> Callable[[Played], str]:
        return lambda one: f"{getattr(one.figures, name):,.{digits}f}"

    columns = (
        Column("GPUS", lambda one: one.way.gpus or str(one.gpus), "bold"),
        Column("POLICY", lambda one: one.way.policy),
        Column("MEM", lambda one: one.way.memory),
        Column("WAIT", time("wait_mean_ms"), right=True),
        Column("P99", time("wait_p99_ms"), right=True),
        Column("MAKESPAN", time("makespan_ms"), right=True),
        Column("GPU HOURS", number("gpu_hours_used", 1), right=True),
        Column("IDLE", number("gpu_hours_idle", 1), right=True),
        Column("OUT OF MEMORY", number("jobs_out_of_memory"), right=True),
        Column("NEVER START", lambda one: one.figures.never_started or None, right=True),
    )
    return f"{len(answer.trace.jobs):,} jobs ({answer.trace.kind})\n" + table(columns, answer.plays)


def _compared(plays: Sequence[Played]) -> str:
    """How the others wait, as against the first, in a sentence each."""
    from stoker.sim.whatif import way_text
    from stoker.text import duration_text

    first = plays[0]
    said = [
        f"With {way_text(one.way, one.gpus)} jobs would wait "
        f"{duration_text(one.figures.wait_mean_ms)} instead of "
        f"{duration_text(first.figures.wait_mean_ms)}.\n"
        for one in plays[1:]
    ]
    return "".join(said)


def _as_data(one: Played) -> dict[str, object]:
    way = {"gpus": one.way.gpus or str(one.gpus), "policy": one.way.policy, "mem": one.way.memory}
    found = one.figures
    return {
        **way,
        "jobs": found.jobs,
        "never_started": found.never_started,
        "wait_mean_ms": found.wait_mean_ms,
        "wait_p99_ms": found.wait_p99_ms,
        "wait_longest_ms": found.wait_longest_ms,
        "took_mean_ms": found.took_mean_ms,
        "makespan_ms": found.makespan_ms,
        "gpu_hours_used": round(found.gpu_hours_used, 3),
        "gpu_hours_idle": round(found.gpu_hours_idle, 3),
        "jobs_out_of_memory": found.jobs_out_of_memory,
        "attempts": found.attempts,
        "attempts_out_of_memory": found.attempts_out_of_memory,
    }


class _Bar:
    """How far it is, on stderr, where that is a terminal and it takes long."""

    def __init__(self) -> None:
        import os
        import sys
        import time

        from stoker.text.terminal import has_terminal

        self._on = has_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        self._clock = time.monotonic
        self._next = self._clock() + 2 * _REDRAW_S
        self._drawn = False

    def show(self, way: str, ended: int, of: int) -> None:
        """Redraw, but not more often than an eye can follow."""
        if not self._on or self._clock() < self._next:
            return
        self._next = self._clock() + _REDRAW_S
        filled = 20 * ended // max(1, of)
        self._write(f"{way}: [{'#' * filled}{'.' * (20 - filled)}] {ended:,} of {of:,} jobs")

    def clear(self) -> None:
        """Leave the terminal as it was found."""
        if self._drawn:
            self._write("")
            self._drawn = False

    def _write(self, text: str) -> None:
        from stoker.cli.feeding.progress import write
        from stoker.text.terminal import clipped, terminal_width

        self._drawn = True
        write(f"\r\x1b[K{clipped(text, (terminal_width() or 80) - 1)}\r")


VERB = Verb(
    "simulate",
    "what if: play past jobs or a trace on other GPUs, in virtual time",
    run=simulate,
    options=(
        Option("trace", "a CSV file of jobs; or a trace of Philly, Muri, openb, gavel; or what "
               "`sacct -P` prints", "FILE", files="file"),
        Option("history", "your own jobs of so long (default: 30d)", "TIME", duration_ms),
        Option("gpus", "so many GPUs, of so much memory: 8:24G, or 4:24G+2:80G; may be repeated "
               "(default: yours)", "COUNT:MEMORY", repeat=True),
        Option("policy", "who goes first: fifo (default), shortest or fair; may be repeated",
               "POLICY", repeat=True, choices=("fifo", "shortest", "fair")),
        Option("mem", "how jobs share GPUs: auto (by learned memory, default), declared (by what "
               "their users said) or whole (not at all); may be repeated", "auto|declared|whole",
               repeat=True, choices=("auto", "declared", "whole")),
        Option("picture", "write who was on which GPU when, and use over time, as SVG", "FILE",
               files="file"),
        Option("seed", "the order in which what happens at the same moment is told (default: 0)",
               "N", number_within(0, 2**31)),
        JSON,
    ),
    examples=(
        ("stoker simulate --gpus 8:24G --gpus 10:24G",
         "how long would my jobs have waited with 10 GPUs instead of 8?"),
        ("stoker simulate --trace trace.csv --gpus 4:24G --mem auto --mem whole --picture a.svg",
         "what does it gain to share GPUs?"),
    ),
    notes=(
        "Nothing is run, and no daemon is needed: the jobs are played in virtual time by the code "
        "that decides in the daemon. The same question has the same answer.",
        "A trace is a CSV file with at least the columns submit and run; docs/scheduling.md "
        "describes all columns, and what is supposed of jobs that share a GPU.",
    ),
)  # fmt: skip
