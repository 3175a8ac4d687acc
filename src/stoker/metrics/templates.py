"""Lines that differ in their numbers alone, taken many at a time by one regular expression.

A template is made from one line whose meaning is known, and matches only lines that mean the same.
It is loose about what a number is: what `float` then refuses is looked at by itself.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stoker.metrics.shapes import NO_THOUSANDS_AFTER, THOUSANDS, Metric, Plan

Row = tuple[bytes, ...]

# Nearly the same for all lines of one template, and fast: a line without what varies in them.
KEY_WITHOUT = bytes(b" 0123456789.+-eE#=>" + bytes(range(0x80, 0x100)))

# In a set with others, 0-9 is found twice as fast as \d.
_NUMBER = rb"[-+.0-9eE]{1,40}+"
_EXACT = rb"[-+]?+[.0-9]{1,40}+(?:[eE][-+]?\d{1,18}+)?+"
_BEFORE_A_DOT = rb"[-+]?+\d*+\.\d*+(?:[eE][-+]?\d{1,18}+)?+"
_COUNT = rb"\d{1,18}+"
_WORD = rb"[-+]?+(?i:nan|inf(?:inity)?+)"
_LINE = rb"(?:\xe2\x94\x81|\xe2\x95[\xb8\xba])"  # of which Rich and Keras make bars
_PARTS = re.compile(
    rb"(?P<bar>\x01+)|(?<= )(?P<line>" + _LINE + rb"+)(?= )|(?P<space> +)|(?P<digits>\d+)"
    rb"|(?P<high>[\x80-\xff]+)|[^\x01 \d\x80-\xff]+"
)
_MAY_BE_CLOSE = frozenset(b"(){}[]|<>=,;%'\"")


class MetricColumn(NamedTuple):
    """A metric in rows: its name, or the column in which that is, and those of its numbers."""

    name: str | None
    name_at: int
    value: int
    over: int | None  # what it is divided by
    prefix: str  # of a name that is in a column


class Columns(NamedTuple):
    """What the columns of rows are; the numbers in them, or names where they have digits."""

    metrics: tuple[MetricColumn, ...]
    step: int | None
    epoch: int | None
    has_epochs: bool
    done: int | None
    of: int | None
    is_bar: bool
    names: frozenset[int]  # columns that are not numbers
    thousands: frozenset[int]  # columns of numbers like 2,000

    def axes(self) -> tuple[int | None, int | None, int | None, int | None]:
        """The columns that say how far the training is."""
        return self.step, self.epoch, self.done, self.of


class Template(NamedTuple):
    """An expression that matches lines of one meaning, and what its groups are."""

    expression: re.Pattern[bytes]
    columns: Columns

    def divided(self, text: bytes) -> tuple[list[list[bytes]], list[bytes]]:
        """The columns of the lines of a text that match; what is before, between, and after."""
        width = self.expression.groups + 1
        parts = self.expression.split(text)
        columns = [parts[at::width] for at in range(1, width)]
        for at in self.columns.thousands:
            columns[at] = [text.replace(b",", b"") for text in columns[at]]
        return columns, parts[::width]

    def texts(self, text: bytes, count: int) -> list[list[bytes]] | None:
        """The columns of a text of so many lines; None if not all of them match."""
        columns, between = self.divided(text)
        return columns if len(between) == count + 1 else None

    def row(self, line: bytes) -> Row | None:
        """The row of one line, if it is of this template."""
        found = self.expression.fullmatch(line)
        return None if found is None else _without_commas(found.groups(), self.columns)


def single(plan: Plan) -> tuple[Columns, Row]:
    """The row of the line from which a plan was made."""
    columns, places = _columns(plan)
    return columns, _without_commas(tuple(plan.text[place] for place in places), columns)


def template_of(plan: Plan) -> Template:
    """The template of the line from which a plan was made."""
    columns, places = _columns(plan)
    wanted = {place.start: place.stop for place in places}
    numbers, literal = dict(plan.places), dict(plan.literal)
    counted = {plan.places[n][0] for n in (plan.done, plan.of) if n is not None}
    parts: list[bytes] = []
    at, text = 0, plan.text
    for start in sorted({*wanted, *numbers, *literal}):
        if start < at:
            continue  # a number within a literal text
        parts.append(_text(text[at:start], at in numbers.values(), start in numbers))
        if start in numbers:
            at = numbers[start]
            number = _number(text[start:at], text[at : at + 2], start in counted)
            parts.append(b"(" + number + b")" if start in wanted else number)
        elif start in literal:
            at = literal[start]
            parts.append(re.escape(text[start:at]))
        else:
            at = wanted[start]
            parts.append(b"(" + _text(text[start:at], False, False) + b")")
    parts.append(_text(text[at:], True, False))
    return Template(re.compile(b"^" + b"".join(parts) + b"$", re.MULTILINE), columns)


def _columns(plan: Plan) -> tuple[Columns, list[slice]]:
    """What is wanted of a line, and where it is, in the order of the line."""
    wanted: list[int | None] = [plan.step, plan.epoch, plan.done, plan.of]
    for metric in plan.metrics:
        wanted += [metric.number, metric.over]
    numbers = [slice(*plan.places[n]) for n in {n for n in wanted if n is not None}]
    names = [m.name_at for m in plan.metrics if _varies(m, plan)]
    places = sorted([*numbers, *names], key=lambda place: place.start)
    column = {place.start: n for n, place in enumerate(places)}

    def of(number: int | None) -> int | None:
        return None if number is None else column[plan.places[number][0]]

    metrics = tuple(
        MetricColumn(
            None if m.name_at in names else m.prefix + m.name + m.suffix,
            column[m.name_at.start] if m.name_at in names else -1,
            column[plan.places[m.number][0]],
            of(m.over),
            m.prefix,
        )
        for m in plan.metrics
    )
    columns = Columns(
        metrics,
        of(plan.step),
        of(plan.epoch),
        plan.has_epochs,
        of(plan.done),
        of(plan.of),
        plan.is_bar,
        frozenset(column[place.start] for place in names),
        frozenset(column[one.start] for one in numbers if b"," in plan.text[one]),
    )
    return columns, places


def _varies(metric: Metric, plan: Plan) -> bool:
    """Whether the name of a metric has digits in which lines of one template may differ."""
    place = metric.name_at.start, metric.name_at.stop
    return place not in plan.literal and any(map(str.isdigit, metric.name))


def _without_commas(row: Row, columns: Columns) -> Row:
    if not columns.thousands:
        return row
    return tuple(
        one.replace(b",", b"") if at in columns.thousands else one for at, one in enumerate(row)
    )


def _number(example: bytes, follows: bytes, counts: bool) -> bytes:
    if b"," in example:
        return NO_THOUSANDS_AFTER + THOUSANDS
    if follows[:1] == b"," and follows[1:].isdigit():
        # With other digits, it and the next one could be one number.
        return b"(?!" + NO_THOUSANDS_AFTER + THOUSANDS + b")" + _number(example, b",", counts)
    if counts:
        return _COUNT
    if example[-1:].isalpha():
        return _WORD
    follows = follows[:1]
    if follows == b".":
        return _BEFORE_A_DOT
    return _EXACT if follows in (b"e", b"E", b"-", b"+") else _NUMBER


def _text(text: bytes, after_number: bool, before_number: bool) -> bytes:
    """An expression for the text between numbers, where only what does not matter may differ."""
    parts: list[bytes] = []
    joins = after_number and text.strip(b" ") in (b":", b"-", b",", b".", b"/", b"")
    for found in _PARTS.finditer(text):
        part = found[0]
        if found.lastgroup == "bar":
            parts.append(rb"[ #0-9=>.\x80-\xff]*+")
        elif found.lastgroup == "line":
            parts.append(_LINE + rb"++")
        elif found.lastgroup == "digits":
            parts.append(rb"\d++")
        elif found.lastgroup == "high" and not before_number:
            parts.append(rb"[\x80-\xff]++")
        elif found.lastgroup == "space":
            near = text[found.start() - 1 : found.start()] if found.start() else b"("
            close = before_number and found.end() == len(text)
            may = close and not joins and near[0] in _MAY_BE_CLOSE
            parts.append(b" *+" if may else b" ++")
        else:
            parts.append(re.escape(part))
    return b"".join(parts)
