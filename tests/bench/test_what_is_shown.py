"""The table, the pictures and the page show what was measured, and what must be reached."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

import run
from bench.reports import dispatch_at, shown_as_kept
from harness import results
from harness.comparison import changes
from harness.measures import Goal, amount, measure, percentile
from harness.page import BEGIN, END, with_table
from harness.pictures import pictures
from harness.svg import Bar, bars, lines
from harness.table import table

ROOT = Path(__file__).parents[2]


def test_each_row_says_what_must_be_reached_and_whether_it_is() -> None:
    good = table([dispatch_at(1.5)], {}, colour=False)
    assert "≤ 1.60 x yes" in good and "≤ 1.25 x no" in good
    assert "≤ 1.60 x NO" in table([dispatch_at(1.7)], {}, colour=False)


def test_what_got_worse_is_red_and_what_did_not_is_not() -> None:
    def stoker_line(now: float) -> str:
        report = dispatch_at(now)
        found = {"dispatch": changes(dispatch_at(1.2), report)}
        text = table([report], found, colour=True)
        return next(line for line in text.splitlines() if "Stoker, 2,000" in line)

    assert stoker_line(1.5).startswith("\x1b[31m") and "WORSE by 25%" in stoker_line(1.5)
    assert "\x1b[31m" not in stoker_line(1.25)


def test_without_colour_there_is_no_escape() -> None:
    report = dispatch_at(9)
    text = table([report], {"dispatch": changes(dispatch_at(1), report)}, colour=False)
    assert "\x1b" not in text and "WORSE" in text


def test_a_peer_that_is_left_out_is_named() -> None:
    report = dispatch_at(1.5, left_out={"nq": "nq is not installed"})
    assert "nq is left out: nq is not installed" in table([report], {}, colour=False)


def test_a_measure_is_the_median_with_its_spread() -> None:
    one = measure("x", [3.0, 1.0, 2.0], "s", must=Goal(2.5))
    assert (one.value, one.least, one.most, one.met) == (2.0, 1.0, 3.0, True)
    assert measure("x", [2.0], "s", must=Goal(2.5, at_least=True)).met is False


def test_percentiles_are_samples() -> None:
    hundred = [float(number) for number in range(1, 101)]
    assert percentile(hundred, 50) == 50 and percentile(hundred, 99) == 99
    assert percentile([7.0], 99) == 7


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [(1.234, "x", "1.23 x"), (50_000, "jobs/s", "50,000 jobs/s"), (0.0661, "%", "0.07 %")],
)
def test_amounts_read_well(number: float, unit: str, text: str) -> None:
    assert amount(number, unit) == text


def test_pictures_are_well_formed_whatever_the_names_are() -> None:
    strange = '<script>&"'
    drawn = bars(strange, "x", [Bar(strange, 1, 0.5, 2), Bar("far", 900, 900, 900)], goal=1.6)
    assert "<script>" not in drawn and "→" in drawn
    ElementTree.fromstring(drawn)
    ElementTree.fromstring(lines(strange, "x", "y", {strange: [[1000, 2], [1e6, 3]]}))
    for picture in pictures(dispatch_at(1.5)).values():
        ElementTree.fromstring(picture)


def test_the_table_of_the_page_is_put_between_its_marks() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = with_table(text, [dispatch_at(1.5)])
    assert once.startswith("before\n") and once.endswith("\nafter\n") and "old" not in once
    assert "| Stoker, 2,000 | 1.50 x |  | ≤ 1.60 x: yes | ≤ 1.25 x: no |" in once
    assert with_table(once, [dispatch_at(1.5)]) == once


def test_the_page_and_the_pictures_are_those_of_the_committed_results() -> None:
    shown_as_kept(ROOT / "bench" / "results", ROOT / "docs")


def test_every_results_file_is_one_of_a_row() -> None:
    for path in (ROOT / "bench" / "results").glob("*.json"):
        assert path.stem in run.ROWS, path
        report = results.kept(path.stem, path.parent)
        assert report is None or report.row == path.stem
