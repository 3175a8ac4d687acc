"""What the numbers of a line mean: which are metrics, and which say how far a training is.

Only the shape of a line decides that: the line with every digit taken for 0. So a shape is examined
once, however many lines have it, and the numbers of a line are then found by their places.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# The first character comes first, and what may not be before it afterwards: so the search is fast.
# A digit in a word (f1, v2) or behind a dot (a version) begins no number.
_EXPONENT = rb"(?:[eE][-+]?\d{1,4})?"
_DIGITS = (
    rb"(?:(?<=\d)\d{0,39}(?:\.\d{0,40})?" + _EXPONENT + rb"|(?<=\.)\d{1,40}" + _EXPONENT + rb"|"
    rb"(?<=[-+])(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})" + _EXPONENT + rb")(?!\d)"
)
_NOT_FINITE = (
    rb"(?:(?<=[nN])[aA][nN]|(?<=[iI])[nN][fF](?:[iI][nN][iI][tT][yY])?"
    rb"|(?<=[-+])(?i:nan|inf(?:inity)?))(?!\w)"
)
_NUMBER = re.compile(
    rb"[-+.\dnNiI](?<![\w.@].)(?:" + _DIGITS + rb"|" + _NOT_FINITE + rb")", re.DOTALL
)
# A progress bar says nothing that the numbers beside it do not.
_BARS = re.compile(rb"\|(?:[ #]|\xe2\x96[\x80-\x9f])+")

_MOST_NUMBERS = 64
_MOST_NAME = 100
_QUALIFIERS = (
    rb"(?:train|training|val|valid|validation|test|eval|evaluation|dev|avg|average|mean|running|"
    rb"final|best|total|generator|discriminator|g|d)"
)
_NAMED = re.compile(
    rb"(?:"
    rb"(?P<quote>[\"'])(?P<quoted>[^\"'\\<>&\x00-\x1f]{1,100})(?P=quote)"
    rb"|(?<![\w\x80-\xff./@%-])(?P<bare>(?:(?i:" + _QUALIFIERS + rb")[ ])?"
    rb"[A-Za-z_\x80-\xff][\w\x80-\xff./@%-]{0,99})"
    rb"(?:[ ]?\([\w ]{1,20}\))?)"  # as in Epoch(train) or Loss (avg)
    rb"(?P<said>[ \t]*[=:][ \t]*|[ \t]+|(?=\[))"
    rb"(?:(?:\w+\.)?(?:tensor|array|float\d*)\([ ]?|[\"'(\[][ \t]*)?$"
)
_EPOCHS = frozenset({"epoch", "epochs", "ep"})
_STEPS = frozenset(
    {"step", "steps", "global_step", "iter", "iters", "iteration", "iterations", "it", "itr"}
    | {"batch", "update", "updates", "num_updates", "train_step", "training_step"}
)
# Without `=` or `:`, as in `loss 0.31`, only these are metrics.
_KNOWN = re.compile(
    r"(?i:loss|acc|accuracy|ppl|perplexity|auc|auroc|f\d|bleu|rouge|mse|mae|rmse|error|reward|return"
    r"|score|iou|miou|map|lr|psnr|ssim|fid|wer|cer|precision|recall|nll|elbo|top\d)(?:@\d+)?$"
)
_NO_METRICS = frozenset({"cuda", "v_num", "rank", "pid", "line", "port", "max_epochs"})


class Metric(NamedTuple):
    """A metric of a line: where its name and its number are, and the number that divides it."""

    name: str | None  # None if it has digits: then it is as the line has it
    name_at: slice
    at: slice
    over: slice | None


class Plan(NamedTuple):
    """Where the numbers of a shape are that mean something."""

    metrics: tuple[Metric, ...] = ()
    step: slice | None = None
    epoch: slice | None = None
    has_epochs: bool = False  # It was said how many there will be, as in 3/10: they count from 1.
    done: slice | None = None  # as in 450/1000: of this epoch, or of this bar
    of: slice | None = None


NOTHING = Plan()


def may_have_words(text: bytes) -> bool:
    """Whether there may be numbers without digits: `nan` and `inf`."""
    small = text.lower()
    return b"nan" in small or small.count(b"inf") != small.count(b"info")


def plan_of(shape: bytes) -> Plan:
    """What the numbers of lines of this shape mean."""
    if b"0" not in shape and not may_have_words(shape):
        return NOTHING
    places = [found.span() for found in _NUMBER.finditer(shape)][:_MOST_NUMBERS]
    count = len(places)
    ends = [0, *(end for _, end in places)]
    starts = [*(start for start, _ in places), len(shape)]
    texts = [shape[end:start] for end, start in zip(ends, starts, strict=True)]
    metrics: list[Metric] = []
    axes: dict[str, slice] = {}
    for at, (start, end) in enumerate(places):
        before, after = texts[at], texts[at + 1]
        if at and before in _JOINS_OR_SLASH:
            continue
        if not _is_whole(after, at + 1 < count):
            continue
        over = None
        if after == b"/" and at + 1 < count:
            behind = texts[at + 2]
            if behind == b"/" or not _is_whole(behind, at + 2 < count):  # a date, or a size
                continue
            over = slice(*places[at + 1])
        name, name_at, said = _name(before, start)
        axis = axis_of(name)
        if over is not None and (axis == "step" or (axis is None and not said)):
            axis = "done"
        if axis is not None:
            if axis not in axes:
                axes[axis] = slice(start, end)
                if over is not None:
                    axes["of " + axis] = over
        elif name is not None and name not in _NO_METRICS and (said or _KNOWN.search(name)):
            metrics.append(Metric(None if "0" in name else name, name_at, slice(start, end), over))
    if not metrics and "epoch" not in axes:
        return NOTHING
    return Plan(
        tuple(metrics),
        axes.get("step"),
        axes.get("epoch"),
        "of epoch" in axes,
        axes.get("done"),
        axes.get("of done"),
    )


def name_of(raw: bytes) -> str:
    """The name of a metric, as it is in a line."""
    return raw.decode("utf-8", "replace").strip().replace(" ", "_")


_JOINS = frozenset({b":", b"-", b",", b"."})
_JOINS_OR_SLASH = _JOINS | {b"/"}


def _is_whole(after: bytes, more: bool) -> bool:
    """Whether a number stands for itself, and is no part of a time, a date or a size."""
    if more and after in _JOINS:
        return False
    follows = after[:1]
    return not (
        follows.isalnum() or follows in (b"_", b"\\") or (follows == b"." and after[1:2].isalnum())
    )


def _name(before: bytes, start: int) -> tuple[str | None, slice, bool]:
    """The name that ends right before a number, its place, and whether `=` or `:` follows it."""
    near = _BARS.sub(_blank, before[-2 * _MOST_NAME :])
    found = _NAMED.search(near)
    if found is None:
        return None, slice(0), False
    group = "quoted" if found["quoted"] else "bare"
    offset = start - len(near)
    place = slice(offset + found.start(group), offset + found.end(group))
    name = name_of(found[group])
    if not name or not name.isprintable() or name.endswith((".py", ".c", ".cc", ".cpp", ".h")):
        return None, slice(0), False
    return name, place, group == "quoted" or found["said"].strip() != b""


def _blank(found: re.Match[bytes]) -> bytes:
    return b"|" * len(found[0])


def axis_of(name: str | None) -> str | None:
    """Whether a number of this name says how far it is: `step`, `epoch`, or None."""
    if name is None:
        return None
    plain = name.lower().removeprefix("train_").removeprefix("training_")
    return "epoch" if plain in _EPOCHS else "step" if plain in _STEPS else None
