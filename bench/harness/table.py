"""The one table that a run prints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TextIO

from harness.comparison import Change
from harness.measures import Measure, Report, amount, beside_value

RED, GREEN, BOLD, DIM = "31", "32", "1", "2"


def wants_colour(stream: TextIO) -> bool:
    """Whether colours can be seen there."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def table(
    reports: Sequence[Report], changes: Mapping[str, Mapping[str, Change]], *, colour: bool
) -> str:
    """All rows, with what must be reached and what has changed; worse ones are red."""
    lines = [("", "median", "least … most", "must reach", "aim", "before")]
    paint: list[str] = [BOLD]
    for report in reports:
        lines.append((f"{report.row}: {report.what}", "", "", "", "", ""))
        paint.append(BOLD)
        for one in report.measures:
            change = changes.get(report.row, {}).get(one.name)
            lines.append(_line(one, change))
            missed = one.met is False
            worse = change is not None and change.noticed
            paint.append(RED if worse or missed else GREEN if one.met else "")
        for peer, why in report.left_out.items():
            lines.append((f"  {peer} is left out: {why}", "", "", "", "", ""))
            paint.append(DIM)
    # Headings and remarks may be as long as they like.
    widths = [max(len(line[at]) for line in lines if at or line[1]) for at in range(6)]
    shown = []
    for line, code in zip(lines, paint, strict=True):
        first = line[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(line[1:5], widths[1:5], strict=True)]
        text = "  ".join([first, *rest, line[5]]).rstrip()
        shown.append(f"\x1b[{code}m{text}\x1b[0m" if colour and code else text)
    return "\n".join(shown) + "\n"


def _line(one: Measure, change: Change | None) -> tuple[str, str, str, str, str, str]:
    spread, must, aim = beside_value(one, " yes", " NO", " no")
    before = ""
    if change is not None:
        before = f"{change.before:g}"
        if change.noticed:
            before += f"  WORSE by {change.worse_by:.0%}"
        elif abs(change.worse_by) >= 0.01:
            before += f"  {'better' if change.worse_by < 0 else 'worse'} {abs(change.worse_by):.0%}"
    note = f" ({one.note})" if one.note else ""
    return f"  {one.name}{note}", amount(one.value, one.unit), spread, must, aim, before
