"""Metrics in files that a training writes: CSV, as Lightning's CSVLogger does, and JSON lines.

Pure: lines in, points out. A row is a point of each metric that has a number in it. What is no row
is left out: a file may be read while it is written, and its last line may be half there.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping

from stoker.metrics.extractor import Points
from stoker.metrics.vocabulary import axis_of

_LONGEST_LINE = 1 << 20
_MOST_NAME = 100
_MOST_DEPTH = 3
_ABOUT = frozenset({"at_ms", "time", "timestamp", "_timestamp", "_runtime"})


def points_of_rows(rows: Iterable[Mapping[str, object]]) -> Iterator[Points]:
    """The points of rows with names: step, iteration or epoch is the x axis, in this order."""
    for row in rows:
        numbers = dict(_numbers(row))
        axes: dict[str, float] = {}
        for name in list(numbers):
            axis = axis_of(name)
            if axis is not None:
                axes.setdefault(axis, numbers.pop(name))
        step = axes.get("step", axes.get("epoch"))
        for name, value in numbers.items():
            if name not in _ABOUT:
                yield Points(name, [(step, value)])


def rows_of_csv(lines: Iterable[bytes]) -> Iterator[dict[str, object]]:
    """The rows of a CSV file whose first line has the names."""
    texts = (line.decode("utf-8-sig", "replace") for line in lines if len(line) < _LONGEST_LINE)
    try:
        for row in csv.DictReader(text for text in texts if "\0" not in text):
            yield {name: value for name, value in row.items() if isinstance(name, str)}
    except csv.Error:
        return  # It is no CSV from here on.


def rows_of_json_lines(lines: Iterable[bytes]) -> Iterator[dict[str, object]]:
    """The objects of JSON lines; `metrics`, as in Stoker's own reports, is taken apart."""
    for line in lines:
        if len(line) >= _LONGEST_LINE or not line.lstrip().startswith(b"{"):
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        inner = row.pop("metrics", None)
        yield {**row, **inner} if isinstance(inner, dict) else row


def _numbers(
    row: Mapping[str, object], prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, float]]:
    for key, value in row.items():
        name = prefix + key
        if isinstance(value, dict) and depth < _MOST_DEPTH:
            yield from _numbers(value, f"{name}/", depth + 1)
        number = _number(value)
        if number is not None and name and len(name) <= _MOST_NAME and name.isprintable():
            yield name, number


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
