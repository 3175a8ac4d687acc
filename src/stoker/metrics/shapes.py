"""What the numbers of a line mean: which are metrics, and which say how far a training is.

Only the text around the numbers decides that, never their values: so lines that differ in numbers
alone mean the same, and `templates` can take many of them at once.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stoker.metrics.sections import Headings, Nesting
from stoker.metrics.vocabulary import axis_of, is_metric, name_of

# A digit in a word (f1, v2) or behind a dot (a version) begins no number.
_BEGIN = rb"(?<![\w.@\x80-\xff])"
_MANTISSA = rb"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})"
# As in 2,000; neither of a time (07:00:01,123) nor of a list ([1,200]).
THOUSANDS = rb"[-+]?[1-9]\d{0,2}+(?:,\d{3})++(?!\d|[,.]\d)"
NO_THOUSANDS_AFTER = rb"(?<!\d[:,])(?<![\[(])"
_NUMBER = re.compile(
    _BEGIN
    + rb"(?:"
    + NO_THOUSANDS_AFTER
    + THOUSANDS
    + rb"|"
    + _MANTISSA
    + rb"(?:[eE][-+]?\d{1,18})?(?!\d)"
    rb"|(?<!number of )[-+]?(?i:nan|inf(?:inity)?)(?!\w))"
)
_MOST_NUMBERS = 64
_MOST_NUMBER = 40  # characters
_MOST_COUNT = 18
_MOST_NAME = 100
_DIGITS = re.compile(r"\d+")
# The inside of a progress bar says nothing that the numbers beside it do not. It is filled with
# BAR, which no plain line has.
BAR = b"\x01"
_BARS = re.compile(
    rb"(?<=\|)(?:[ #]|\xe2\x96[\x80-\x9f])(?:[ #\d]|\xe2\x96[\x80-\x9f])*(?=\|)"
    rb"|(?<=\[)=*>?\.*(?=\])"
)
_IS_BAR = re.compile(rb"\x01|\xe2\x94\x81|it/s|s/it|/step")

_QUALIFIERS = (
    rb"(?:train|training|val|valid|validation|test|testing|eval|evaluation|dev|avg|avg\.|average|"
    rb"mean|running|final|best|total|generator|discriminator|g|d|\w{1,30}'s)"
)
_WORD = rb"[A-Za-z_\x80-\xff][\w\x80-\xff./@%-]{0,99}"
_NAMED = re.compile(
    rb"(?:"
    rb"(?P<quote>[\"'])(?P<quoted>[^\"'\\<>&\x00-\x1f]{1,100})(?P=quote)"
    rb"|(?<![\w\x80-\xff./@%\\-])(?P<bare>(?:(?i:" + _QUALIFIERS + rb")[ ])?" + _WORD + rb")"
    rb"(?:[ ]?\([\w ]{1,20}\))?)"  # as in Epoch(train) or Loss (avg)
    rb"(?P<said>[ \t]*[=:][ \t]*|[ \t]+|(?=\[))"
    rb"(?:(?:\w+\.)?(?:tensor|array|float\d*)\([ ]?|[\"'(\[][ \t]*)?$"
)
_IN_A_TABLE = re.compile(
    rb"(?:\||\xe2\x94\x82)[ ]*(?P<bare>" + _WORD + rb")[ ]*(?:\||\xe2\x94\x82)[ ]*$"
)
# As in | lm loss: 6.5 | of Megatron: of more words than two, the last two.
_IN_COLUMNS = re.compile(
    rb"\|[ ]*(?:[A-Za-z]\w*[ ]){0,5}?(?P<bare>(?!(?i:current|this)[ ])[A-Za-z]\w*[ ][A-Za-z]\w*)"
    rb"(?:[ ]?\([\w/ ]{1,20}\))?(?P<said>[ ]*:[ ]*)$"
)
# As in Linear(in_features=8, bias=True) or Namespace(lr=0.1): how something was made. The line of
# an object that says what a training has come to is not one of these.
_MADE = re.compile(
    rb"(?<![\w.])(?!(?:Train|Evaluation|Prediction)Output\()[A-Z]\w*\([^()]*(?:\([^()]*\)[^()]*)*$"
)
_PER = re.compile(rb"(?<!\w)per[ ]\w+$")
_FIRST = re.compile(rb"\s*\[?$")  # of a line that begins with its iteration, as in [10] or 10:
_AFTER_FIRST = re.compile(rb"(?:\]|:)\t")
_UNITS = re.compile(
    rb"[ ](?:s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|days?|[KMGT]i?B|bytes|[KMGB])(?![\w/])"
)
_PHASES = frozenset({"train", "val", "valid", "test", "eval"})
_JOINS = frozenset({b":", b"-", b",", b"."})


class Metric(NamedTuple):
    """A metric of a line: its name and where that is, its number, and what that is divided by."""

    name: str
    name_at: slice
    number: int
    over: int | None
    prefix: str = ""  # as in val/loss, from {"val": {"loss": 0.5}}
    suffix: str = ""  # as in loss_2, the second loss of a line


class Plan(NamedTuple):
    """Where the numbers of a line are, and which of them mean something."""

    text: bytes  # the line, with its bars filled
    places: list[tuple[int, int]]
    metrics: list[Metric]
    literal: frozenset[tuple[int, int]]  # texts whose digits and letters matter, as keys around
    step: int | None = None
    epoch: int | None = None
    has_epochs: bool = False  # It was said how many there will be, as in 3/10: they count from 1.
    done: int | None = None  # as in 450/1000: of this epoch, or of this bar
    of: int | None = None
    is_bar: bool = False  # which is refreshed, so that a step may be said several times
    is_odd: bool = False  # as with 3/4.5: with other numbers, the line would mean something else


def plan_of(line: bytes) -> Plan | None:
    """What the numbers of a line mean; None if they mean nothing here."""
    text = _BARS.sub(_filled, line)
    places = [found.span() for found in _NUMBER.finditer(text)][:_MOST_NUMBERS]
    places = [(start, end) for start, end in places if end - start <= _MOST_NUMBER]
    if not places:
        return None
    ends = [0, *(end for _, end in places)]
    starts = [*(start for start, _ in places), len(text)]
    texts = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    count = len(places)
    nesting = Nesting(text)
    literal: set[tuple[int, int]] = set()
    named: set[int] = set()
    metrics: list[Metric] = []
    axes: dict[str, int] = {}
    is_odd = in_a_dict = False
    for at, (start, _) in enumerate(places):
        before, after = texts[at], texts[at + 1]
        if at and (before in _JOINS or before.strip() == b"/"):
            continue
        if not _is_whole(after, at + 1 < count):
            continue
        over = None
        if after.strip(b" ") == b"/" and at + 1 < count:
            behind = texts[at + 2]
            if behind == b"/" or not _is_whole(behind, at + 2 < count):  # a date, or a size
                continue
            if behind == b" " and texts[at + 3 : at + 4] == [b":"]:  # a date before a time
                continue
            over = at + 1
        name, name_at, said = _name(before, start)
        axis = axis_of(name)
        if name is not None and name.lower() in _PHASES and after.startswith(b" ["):
            axis = "epoch"  # as in Train: 3 [50/100]
        is_heading = name is not None and name.lower() in _PHASES
        if is_heading and over is not None and before.rstrip(b" ").endswith(b"["):
            name, said = None, False  # as in Test: [50/100]
        if over is not None and (axis == "step" or (axis is None and not said)):
            if not (_counts(text, places[at]) and _counts(text, places[over])):
                is_odd = True
                continue
            axis = "done"
            if name is None and after + before == b"/[" and behind == b"][":
                axis = "epoch"  # as in [3/25][100/1000]
        if name is None and not at and _FIRST.match(before) and _AFTER_FIRST.match(after):
            axis = "step"
        if axis is not None:
            if name is not None:
                named.add(name_at.start)
            if axis not in axes:
                axes[axis] = at
                if axis == "epoch" and name is not None:
                    in_a_dict = text[name_at.stop : name_at.stop + 1] in (b"'", b'"')
                if over is not None:
                    axes["of " + axis] = over
        elif (
            name is not None
            and is_metric(name, said)
            and not _UNITS.match(after)
            and not _MADE.search(text, max(0, start - 500), start)
        ):
            prefix, keys = nesting.at(name_at.start)
            literal.update((key.start, key.stop) for key in keys)
            named.add(name_at.start)
            if prefix is not None and len(prefix) + len(name) <= _MOST_NAME:
                metrics.append(Metric(name, name_at, at, over, prefix))
    if not metrics and "epoch" not in axes:
        return None
    if in_a_dict:  # The epoch of a dict is the whole one, as in 20/30 [00:12]{'epoch': 0.67}.
        axes.pop("done", None)
        axes.pop("of done", None)
    headings = Headings(text, named)
    metrics = [one._replace(prefix=headings.prefix(one.name_at) + one.prefix) for one in metrics]
    if len({_DIGITS.sub("0", one.prefix + one.name) for one in metrics}) < len(metrics):
        # Whether names are the same must not depend on digits in which other lines may differ.
        literal.update((one.name_at.start, one.name_at.stop) for one in metrics)
        metrics = _told_apart(metrics)
    return Plan(
        text,
        places,
        metrics,
        frozenset(literal),
        axes.get("step"),
        axes.get("epoch"),
        "of epoch" in axes and texts[axes["epoch"]] != b"[",
        axes.get("done"),
        axes.get("of done"),
        "done" in axes and _IS_BAR.search(text) is not None,
        is_odd,
    )


def _told_apart(metrics: list[Metric]) -> list[Metric]:
    """The metrics of a line, the second of the same name as name_2."""
    taken = {one.prefix + one.name for one in metrics}
    seen: set[str] = set()
    apart: list[Metric] = []
    for one in metrics:
        name = one.prefix + one.name
        if name in seen:
            suffix = next(f"_{n}" for n in range(2, 200) if f"{name}_{n}" not in taken)
            taken.add(name + suffix)
            one = one._replace(suffix=suffix)
        seen.add(name)
        apart.append(one)
    return apart


def _counts(text: bytes, place: tuple[int, int]) -> bool:
    return place[1] - place[0] <= _MOST_COUNT and text[slice(*place)].replace(b",", b"").isdigit()


def _is_whole(after: bytes, more: bool) -> bool:
    """Whether a number stands for itself, and is no part of a time, a date, a size or a path."""
    if more and after in _JOINS:
        return False
    follows, next_one = after[:1], after[1:2]
    return not (
        after.startswith(b"%|")  # of a bar
        or follows.isalnum()
        or follows in (b"_", b"\\")
        or (follows in (b".", b"/") and (next_one.isalpha() or next_one == b"_"))
        or (follows == b"." and next_one.isdigit())
    )


def _name(before: bytes, start: int) -> tuple[str | None, slice, bool]:
    """The name that ends right before a number, its place, and whether `=` or `:` follows it."""
    near = before[-200:]
    found = _IN_A_TABLE.search(near) or _IN_COLUMNS.search(near) or _NAMED.search(near)
    if found is None:
        return None, slice(0), False
    groups = found.groupdict()
    group = "quoted" if groups.get("quoted") else "bare"
    offset = start - len(near)
    place = slice(offset + found.start(group), offset + found.end(group))
    if groups.get("said") == b":" and near[found.start(group) - 1 : found.start(group)] == b":":
        return None, slice(0), False  # as in main:fit:31, a place in a program
    if near[found.start(group) - 1 : found.start(group)] in (b"?", b"&"):
        return None, slice(0), False  # as in http://host/?loss=3&acc=4
    name = name_of(found[group])
    if axis_of(name and name.removeprefix("per_")) and _PER.search(near, 0, found.end(group)):
        return None, slice(0), False  # as in elapsed time per iteration (ms): 300.1
    said = group == "quoted" or "said" not in groups or found["said"].strip() != b""
    return name, place, said


def _filled(found: re.Match[bytes]) -> bytes:
    return BAR * len(found[0])
