"""Reports for the tests of the benchmarks' harness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import run
from harness.measures import Goal, Measure, Report, measure
from harness.page import with_table
from harness.pictures import pictures


def stoker_at(ratio: float, **more: Any) -> Measure:
    """Stoker's multiple of the limit."""
    return measure("Stoker, 2,000", [ratio], "x", must=Goal(1.6), aim=Goal(1.25), **more)


def peer_at(ratio: float) -> Measure:
    """A peer's multiple."""
    return measure("xargs, 2,000", [ratio], "x", ours=False)


def dispatch_at(ratio: float, **more: Any) -> Report:
    """A row in which Stoker takes that multiple."""
    return Report("dispatch", "no-op jobs", [peer_at(1.2), stoker_at(ratio)], **more)


def bulk_at(rate: float) -> Report:
    """A row of which more is better."""
    ours = measure("client", [rate], "jobs/s", more_is_better=True)
    return Report("bulk", "jobs queued", [ours])


def shown_as_kept(results: Path, docs: Path) -> None:
    """Fail unless the page and its pictures are those of the results, and no others."""
    kept = run.all_kept(results)
    page = (docs / "performance.md").read_text(encoding="utf-8")
    assert with_table(page, kept) == page
    drawn = docs / "images" / "bench"
    made = {name: text for report in kept for name, text in pictures(report).items()}
    assert {path.name: path.read_text(encoding="utf-8") for path in drawn.glob("*")} == made
    for name in made:
        assert f"(images/bench/{name})" in page
