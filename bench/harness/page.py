"""What docs/performance.md has between two marks: the table of all results, and their pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.measures import Measure, Report, amount, beside_value
from harness.pictures import pictures

PICTURES = "images/bench"  # where they are, seen from the page
BEGIN, END = "<!-- results: written by `make bench` -->", "<!-- end of the results -->"


def page_table(reports: Sequence[Report]) -> str:
    """What was reached, as Markdown, with its pictures."""
    lines = [
        "| | measured | least … most | must reach | aim |",
        "|---|---|---|---|---|",
    ]
    for report in reports:
        lines.append(f"| **{report.row}**: {report.what} | | | | |")
        lines += [_line(one) for one in report.measures]
        lines += [f"| {peer} is left out: {why} | | | | |" for peer, why in report.left_out.items()]
    places = dict.fromkeys(_place(report) for report in reports if report.machine)
    for place in places:
        lines += ["", place]
    for report in reports:
        for name in pictures(report):
            lines += ["", f"![{Path(name).stem}: {report.what}]({PICTURES}/{name})"]
    return "\n".join(lines) + "\n"


def _place(report: Report) -> str:
    """Where a row was measured; the load before is in its file, since rows have their own."""
    where = report.machine
    return (
        f"Measured on {where['cpus']} cores, Linux {where['kernel']}, "
        f"Python {where['python']}, {where['file_system']}."
    )


def _line(one: Measure) -> str:
    spread, must, aim = beside_value(one, ": yes", ": **no**", ": no")
    note = f" ({one.note})" if one.note else ""
    return f"| {one.name}{note} | {amount(one.value, one.unit)} | {spread} | {must} | {aim} |"


def put_into(path: Path, reports: Sequence[Report]) -> None:
    """Bring the table of a page up to date."""
    text = path.read_text(encoding="utf-8")
    path.write_text(with_table(text, reports), encoding="utf-8")


def with_table(text: str, reports: Sequence[Report]) -> str:
    """The page with this table between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"the page has no {BEGIN!r} and {END!r}"
    return f"{before}{BEGIN}\n\n{page_table(reports)}\n{END}{after}"
