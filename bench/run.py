"""All benchmarks side by side with the peers: one run, one table, and what has changed since.

`make bench` runs all rows, `make bench ONLY=gap,add` some, `make bench QUICK=1` each of them
briefly, which tells that they work and little more. A run writes bench/results (one file a row),
and from all files there the pictures in docs/images/bench and the table of docs/performance.md; a
quick one writes nothing.

Exit code: 0 if nothing is worse than in the committed results by more than 10 %; 10 and the number
of the row (see --list) if that row is, 10 alone if several are; 1 if a row could not be measured;
2 for a mistake in the command.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import comparison, results
from harness.measures import Report
from harness.page import PICTURES, put_into
from harness.pictures import draw
from harness.setting import Setting
from harness.table import table, wants_colour
from rows.bulk import bulk
from rows.commands import add, ls
from rows.companions import on_slurm, packing
from rows.dispatch import dispatch
from rows.feed import feed
from rows.gap import gap
from rows.idle import idle
from rows.length import growth, memory, restart
from rows.library import library
from rows.metrics import metrics
from rows.page import page
from rows.reading import reading
from rows.results import results as results_of_sweeps
from rows.scheduling import scheduling
from rows.search import search
from side_by_side import HERE, machine

DOCS = HERE.parent / "docs"

Run = Callable[[Setting], list[Report]]

# The number of a row is its place here: new ones come last.
ROWS: dict[str, Run] = {
    "dispatch": dispatch,
    "gap": gap,
    "add": add,
    "ls": ls,
    "bulk": bulk,
    "growth": growth,
    "memory": memory,
    "restart": restart,
    "idle": idle,
    "feed": feed,
    "library": library,
    "page": page,
    "packing": packing,
    "on_slurm": on_slurm,
    "metrics": metrics,
    "reading": reading,
    "results": results_of_sweeps,
    "search": search,
    "scheduling": scheduling,
}
NUMBERS = {name: number for number, name in enumerate(ROWS, start=1)}


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the command line asks for."""

    rows: list[str]
    quick: bool
    rounds: int | None
    results: Path
    keep: bool


def run(proposal: Proposal, rows: Mapping[str, Run] = ROWS) -> int:
    """Measure, print the table, keep what was found; the exit code."""
    reports: list[Report] = []
    scratch = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    setting = Setting(scratch, proposal.quick, proposal.rounds)
    broken: dict[str, str] = {}
    try:
        for name in proposal.rows:
            setting.say(f"--- {name}")
            measured_on = machine(scratch)
            try:
                found = rows[name](setting)
            except Exception as error:
                # The hours of the other rows must not be lost by one.
                traceback.print_exc()
                broken[name] = str(error) or type(error).__name__
                continue
            for report in found:
                report.machine, report.quick = measured_on, proposal.quick
                reports.append(report)
    finally:
        setting.close()
        _remove(scratch)
    changes = {
        report.row: comparison.changes(results.committed(report.row, proposal.results), report)
        for report in reports
    }
    print(table(reports, changes, colour=wants_colour(sys.stdout)), end="")
    if proposal.keep:
        for report in reports:
            if report.measures:
                results.keep(report, proposal.results)
        # The page and the pictures are those of all files, of whichever run each of them is.
        everything = all_kept(proposal.results)
        for report in everything:
            draw(report, DOCS / PICTURES)
        put_into(DOCS / "performance.md", everything)
    worse = [one for some in changes.values() for one in some.values() if one.noticed]
    for one in worse:
        print(f"bench: {one.text}", file=sys.stderr)
    for name, why in broken.items():
        print(f"bench: {name} could not be measured: {why}", file=sys.stderr)
    if broken and not worse:
        return 1
    return comparison.exit_code(worse, NUMBERS)


def _remove(scratch: Path) -> None:
    """The last process of a peer may still write into it while it goes."""
    for _ in range(100):
        shutil.rmtree(scratch, ignore_errors=True)
        if not scratch.exists():
            return
        time.sleep(0.05)


def all_kept(directory: Path) -> list[Report]:
    """What the files say of all rows, in the order of the table."""
    found = [results.kept(name, directory) for name in ROWS]
    return [report for report in found if report is not None]


def understood(words: list[str] | None = None) -> Proposal:
    """What the command line asks for; ends the program where that makes no sense."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="ROW,...", help="only these rows")
    parser.add_argument("--quick", action="store_true", help="each row briefly")
    parser.add_argument("--rounds", type=int, help="how often, instead of what is usual")
    parser.add_argument("--list", action="store_true", help="print the rows and their numbers")
    parser.add_argument(
        "--results", type=Path, default=HERE / "results", help="where the results are kept"
    )
    parser.add_argument("--keep-nothing", action="store_true", help="write no file")
    args = parser.parse_args(words)
    if args.list:
        for name, number in NUMBERS.items():
            print(f"{number:>2}  {name}")
        sys.exit(0)
    rows = [name for name in args.only.replace(" ", "").split(",") if name] or list(ROWS)
    unknown = [name for name in rows if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    keep = not (args.quick or args.keep_nothing)
    return Proposal(rows, args.quick, args.rounds, args.results, keep)


def make_ready() -> None:
    """Let all be as it is where Stoker was installed: compiled, and without a home of one's own."""
    for name in ("PYTHONDONTWRITEBYTECODE", "STOKER_HOME"):
        os.environ.pop(name, None)
    compileall.compile_dir(HERE.parent / "src" / "stoker", quiet=2)


if __name__ == "__main__":
    asked = understood()
    make_ready()
    sys.exit(run(asked))
