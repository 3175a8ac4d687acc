"""Metrics in the output of a program, as it comes: bytes in, points out.

Pure and incremental: however the output is cut into pieces, the points are those of the whole. All
lines of a block that are alike are taken at once, whatever is between them, and the points are put
into the order of the output afterwards. Memory is bounded, whatever comes: a line that is too long
to be one of a training is left out, and so are names after the first thousand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, count, repeat
from operator import itemgetter, ne
from typing import Any, NamedTuple

from stoker.metrics.columns import Point, Run, picked, ratio
from stoker.metrics.patterns import MetricPattern
from stoker.metrics.plain_lines import LONGEST_LINE, is_text, plain_text
from stoker.metrics.progress import Batch, Progress
from stoker.metrics.shapes import plan_of
from stoker.metrics.templates import KEY_WITHOUT, Row, Template, single, template_of
from stoker.metrics.vocabulary import name_of

MOST_NAMES = 1000
_BLOCK = 256 * 1024
_MOST_KNOWN_BYTES = 4 << 20
_MOST_TEMPLATES = 4  # of lines with the same key
_FEW = 4  # keys of which all lines are looked at for each
_MOST_PERIODS = 8  # that are tried
_OFTEN = 3  # lines of one key for which a template is worth its making
_LINE_END = re.compile(rb"[\r\n]")
_ZERO = bytes.maketrans(b"123456789", b"000000000")
_WORDS = re.compile(rb"(?i)nan|inf(?!o)")  # numbers without digits


Held = tuple[float, float]  # step and value


class Points(NamedTuple):
    """Values of one metric, in the order of the output."""

    name: str
    points: Sequence[Point]


class _Known:
    """What is known of lines with the same key."""

    def __init__(self) -> None:
        self.templates: list[Template] = []
        self.seen = 0
        self.nothing: set[bytes] = set()  # shapes of lines without a meaning


class Extractor:
    """Finds the points of one attempt's output; `patterns` are the user's own."""

    def __init__(self, patterns: Sequence[MetricPattern] = ()) -> None:
        self._patterns = patterns
        self._own = frozenset(pattern.name for pattern in patterns)
        self._pending = b""
        self._skips = False  # within a line that is too long
        self._known: dict[bytes, _Known] = {}
        self._known_bytes = 0
        self._usual: Template | None = None  # of most lines of the block before
        self._many = 0  # lines of this block are most of them
        self._progress = Progress()
        self._names = set(self._own)  # They have their place, however many names come before them.
        self._points: dict[str, Run] = {}
        self._refreshed: dict[str, Held] = {}  # the last of a bar, which the next may replace

    @property
    def held(self) -> Mapping[str, Held]:
        """The last states of bars, by metric: points that the next line may replace."""
        return self._refreshed

    def state(self) -> dict[str, Any]:
        """What an extractor has to know that goes on here, as JSON; all points were taken."""
        pending = self._pending.decode("latin-1")
        held = {name: list(map(repr, point)) for name, point in self._refreshed.items()}
        progress = self._progress.state()
        return {"pending": pending, "skips": self._skips, "progress": progress, "held": held}

    def go_on(self, state: Mapping[str, Any], names: Iterable[str]) -> None:
        """Be as the one was whose state this is, and which had found these names."""
        self._pending, self._skips = state["pending"].encode("latin-1"), state["skips"]
        self._progress.go_on(state["progress"])
        for name, (step, value) in state["held"].items():
            self._refreshed[name] = float(step), float(value)
        self._names.update(names, self._refreshed)

    def feed(self, data: bytes) -> list[Points]:
        """The points of all lines that have ended with this piece of the output."""
        for start in range(0, len(data), _BLOCK):
            self._take(data[start : start + _BLOCK])
        return self._found()

    def end(self) -> list[Points]:
        """The points of the last line, if it has no end, and of the last state of a bar."""
        last, self._pending = self._pending, b""
        if last:
            self._lines(last)
        for name, (step, value) in self._refreshed.items():
            self._points.setdefault(name, Run()).add([step], [value])
        self._refreshed = {}
        return self._found()

    def _found(self) -> list[Points]:
        found = [Points(name, points) for name, points in self._points.items() if len(points)]
        self._points = {}
        return found

    def _take(self, data: bytes) -> None:
        if self._skips:
            end = _LINE_END.search(data)
            if end is None:
                return
            data, self._skips = data[end.end() :], False
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if cut:
            self._lines(self._pending + data[:cut] if self._pending else data[:cut])
            self._pending = data[cut:]
        else:
            self._pending += data
        if len(self._pending) > LONGEST_LINE:
            self._pending, self._skips = b"", True

    def _lines(self, block: bytes) -> None:
        text = plain_text(block)
        batches: list[Batch] = []
        places, rest = self._take_usual(text, batches)
        if places:
            self._by_key(places, rest, batches)
        batches.sort(key=lambda batch: batch.places[0])
        self._progress.put_steps(batches)
        self._put_points(batches)
        if self._patterns:
            self._put_own(text.split(b"\n"), batches)

    # ------------------------------------------------------------------ lines to numbers

    def _take_usual(self, text: bytes, batches: list[Batch]) -> tuple[Sequence[int], bytes]:
        """Take in the lines that are like most before, for which no key is needed; the others."""
        whole = range(text.count(b"\n") + 1)
        template, self._usual = self._usual, None
        self._many = len(whole) * 9 // 10
        if template is None:
            return whole, text
        texts, between = template.divided(text)
        places, others, lines = _apart(between)
        if not places:
            return whole, text
        try:
            batches.append(Batch(template.columns, places, texts))
        except ValueError:  # One of them is no number.
            return whole, text
        if len(places) >= self._many:
            self._usual = template
        return others, b"\n".join(lines)

    def _by_key(self, places: Sequence[int], text: bytes, batches: list[Batch]) -> None:
        keys = text.translate(None, KEY_WITHOUT).split(b"\n")
        if keys.count(keys[0]) == len(keys):
            self._alike(keys[0], places, text, batches)
            return
        lines = text.split(b"\n")
        groups = _grouped(keys)
        if len(groups) > len(keys) // 2:  # As in prose, in which few lines can have a meaning.
            shapes = text.translate(_ZERO).split(b"\n")
            groups = {
                key: at
                for key, at in groups.items()
                if len(at) > 1 or b"0" in shapes[at[0]] or _has_words(key)
            }
        for key, at in groups.items():
            self._alike(key, picked(places, at), b"\n".join(picked(lines, at)), batches)

    def _alike(self, key: bytes, places: Sequence[int], text: bytes, batches: list[Batch]) -> None:
        """Take in lines with the same key: most or all of them are of one template."""
        known = self._known.get(key)
        if known is None:
            if is_text(key):
                self._examine(key, places, text.split(b"\n"), batches)
            return
        for template in known.templates:
            texts = template.texts(text, len(places))
            if texts is not None:
                try:
                    batches.append(Batch(template.columns, places, texts))
                    if len(places) >= self._many:
                        self._usual = template
                    return
                except ValueError:  # One of them is no number.
                    pass
            lines = text.split(b"\n")
            taken: list[int] = []
            rows: list[Row] = []
            rest: list[int] = []
            for at, row in enumerate(map(template.row, lines)):
                if row is None or not _are_numbers(row, template):
                    rest.append(at)
                else:
                    taken.append(places[at])
                    rows.append(row)
            if rows:
                batches.append(Batch(template.columns, taken, list(zip(*rows, strict=True))))
            if not rest:
                return
            places, text = [places[at] for at in rest], b"\n".join([lines[at] for at in rest])
        self._examine(key, places, text.split(b"\n"), batches)

    def _examine(
        self, key: bytes, places: Sequence[int], lines: list[bytes], batches: list[Batch]
    ) -> None:
        """Take in lines one by one, and learn from them."""
        shapes = b"\n".join(lines).translate(_ZERO).split(b"\n")
        has_words = _has_words(key)
        known = self._known.get(key)
        if known is not None and known.nothing.issuperset(shapes):
            return
        for at, (shape, line) in enumerate(zip(shapes, lines, strict=True)):
            if b"0" not in shape and not (has_words and _WORDS.search(shape)):
                continue
            known = self._known.get(key)
            if known is None:
                known = self._learn(key, _Known(), len(key) + 500)
            elif shape in known.nothing:
                continue
            plan = plan_of(line)
            if plan is None:
                known.nothing.add(shape)
                self._learn(key, known, len(shape) + 100)
                continue
            columns, row = single(plan)
            batches.append(Batch(columns, [places[at]], [(one,) for one in row]))
            known.seen += not plan.is_odd
            if not plan.is_odd and known.seen >= _OFTEN and len(known.templates) < _MOST_TEMPLATES:
                known.templates.append(template_of(plan))
                known.seen = 0
                self._learn(key, known, 20 * len(line) + 2000)
                if lines[at + 1 :]:
                    self._alike(key, places[at + 1 :], b"\n".join(lines[at + 1 :]), batches)
                return

    def _learn(self, key: bytes, known: _Known, size: int) -> _Known:
        if self._known_bytes > _MOST_KNOWN_BYTES:
            self._known.clear()
            self._known_bytes = 0
        self._known[key] = known
        self._known_bytes += size
        return known

    # ------------------------------------------------------------------ numbers to points

    def _put_points(self, batches: list[Batch]) -> None:
        """Add the points of all lines, in the order of the output."""
        by_name: dict[str, list[_Part]] = {}
        for batch in batches:
            for name, name_at, value_at, over, prefix in batch.columns.metrics:
                values = batch.numbers[value_at]
                if over is not None:
                    values = list(map(ratio, values, batch.numbers[over]))
                part = _Part(batch, batch.places, batch.steps, values)
                if name is not None:
                    by_name.setdefault(name, []).append(part)
                else:
                    for one, its in part.by_names(batch.texts[name_at]):
                        by_name.setdefault(prefix + one, []).append(its)
        for name, parts in by_name.items():
            if name in self._own or not self._may_have(name):
                continue
            if len(parts) == 1:
                part = parts[0].without_refreshed()
                self._add(name, part.steps, part.values, (part.is_bar, part.is_bar))
            else:
                self._add(name, *_merged(parts))

    def _add(
        self,
        name: str,
        steps: Sequence[float | None],
        values: Sequence[float],
        are_bars: tuple[bool, bool],  # the first, and the last
    ) -> None:
        """Add points; what a bar said before at the same step was only refreshed."""
        run = self._points.get(name)
        if run is None:
            run = self._points[name] = Run()
        held = self._refreshed.pop(name, None)
        if held is not None and not (are_bars[0] and held[0] == steps[0]):
            run.add([held[0]], [held[1]])
        if are_bars[1]:
            step = steps[-1]
            assert step is not None, "a bar says how far it is"
            self._refreshed[name] = (step, values[-1])
            steps, values = steps[:-1], values[:-1]
        run.add(steps, values)

    def _may_have(self, name: str) -> bool:
        if name not in self._names:
            if len(self._names) >= MOST_NAMES:
                return False
            self._names.add(name)
        return True

    def _put_own(self, lines: list[bytes], batches: list[Batch]) -> None:
        """Add what the user's own patterns find; its step is that of its line."""
        steps = dict(chain.from_iterable(zip(b.places, b.steps, strict=True) for b in batches))
        epoch_at = self._progress.epoch_at
        for pattern in self._patterns:
            points: list[Point] = []
            for place, line in enumerate(lines):
                if not is_text(line):
                    continue
                for step, value in pattern.values(line):
                    if step is None:
                        step = steps[place] if place in steps else epoch_at(place)
                    points.append((step, value))
            if points and self._may_have(pattern.name):
                steps_of, values = zip(*points, strict=True)
                self._add(pattern.name, steps_of, values, (False, False))


class _Part(NamedTuple):
    """Points of one name in a batch."""

    batch: Batch
    places: Sequence[int]
    steps: Sequence[float | None]
    values: Sequence[float]

    @property
    def is_bar(self) -> bool:
        return self.batch.columns.is_bar

    def without_refreshed(self) -> _Part:
        """Those of a bar that the next one does not replace."""
        if not self.is_bar:
            return self
        differ = self.batch.differ()
        if len(self.places) != len(self.batch.places):  # Not all lines have this name.
            differ = [*map(ne, self.steps, self.steps[1:]), True]
        if all(differ):
            return self
        return self._only([at for at, differs in enumerate(differ) if differs])

    def by_names(self, names: Sequence[bytes]) -> Iterator[tuple[str, _Part]]:
        """Those of each name, if it has digits, so that each line has its own."""
        said: dict[bytes, list[int]] = {}
        if names.count(names[0]) == len(names):
            said[names[0]] = []
        else:
            for at, name in enumerate(names):
                said.setdefault(name, []).append(at)
        for raw, lines in said.items():
            one = name_of(raw)
            if one is not None:
                yield one, self._only(lines) if lines else self

    def _only(self, lines: list[int]) -> _Part:
        return _Part(
            self.batch,
            picked(self.places, lines),
            picked(self.steps, lines),
            picked(self.values, lines),
        )


def _apart(between: list[bytes]) -> tuple[Sequence[int], list[int], list[bytes]]:
    """The places of lines that match, by what is between them; those of all others, and these."""
    others: list[int] = []
    lines: list[bytes] = []
    for matched in compress(count(), map(ne, between, repeat(b"\n"))):
        part = between[matched]
        if part:
            its = part.strip(b"\n").split(b"\n")
            others += range(matched + len(lines), matched + len(lines) + len(its))
            lines += its
    whole = range(len(between) - 1 + len(lines))
    if not lines:
        return whole, others, lines
    is_left = bytearray(b"\1") * len(whole)
    for at in others:
        is_left[at] = 0
    return list(compress(whole, is_left)), others, lines


def _has_words(key: bytes) -> bool:
    """Whether lines with this key may have numbers without digits."""
    lower = key.lower()
    return b"nan" in lower or b"inf" in lower


def _grouped(keys: list[bytes]) -> Mapping[bytes, Sequence[int]]:
    """The places of each key."""
    period = _period(keys)
    if period:
        return _of_period(keys, period)
    counts = Counter(keys)
    groups: dict[bytes, list[int]] = {key: [] for key in counts}
    if len(groups) > _FEW:
        for place, key in enumerate(keys):
            groups[key].append(place)
        return groups
    most = max(counts, key=counts.__getitem__)  # It has what the others leave.
    is_left = bytearray(b"\1") * len(keys)
    for key, places in groups.items():
        at = -1
        for _ in range(counts[key] if key != most else 0):
            at = keys.index(key, at + 1)
            places.append(at)
            is_left[at] = 0
    groups[most] = list(compress(count(), is_left))
    return groups


def _period(keys: list[bytes]) -> int:
    """After how many lines the same keys come again, as those of a table; 0 if they do not."""
    period = 0
    for _ in range(_MOST_PERIODS):
        try:
            period = keys.index(keys[0], period + 1)
        except ValueError:
            return 0
        if keys[period:] == keys[:-period]:
            return period
    return 0


def _of_period(keys: list[bytes], period: int) -> Mapping[bytes, Sequence[int]]:
    places = range(len(keys))
    groups: dict[bytes, Sequence[int]] = {}
    for at, key in enumerate(keys[:period]):
        its = places[at::period]
        groups[key] = sorted((*groups[key], *its)) if key in groups else its
    return groups


def _merged(
    parts: list[_Part],
) -> tuple[list[float | None], list[float], tuple[bool, bool]]:
    """The points of several parts in the order of the output."""
    marked = chain.from_iterable(
        zip(part.places, part.steps, part.values, repeat(part.is_bar)) for part in parts
    )
    lines = sorted(marked, key=itemgetter(0))
    kept = [
        line
        for line, then in zip(lines, [*lines[1:], (0, None, 0.0, False)], strict=True)
        if not (line[3] and then[3] and line[1] == then[1])
    ]
    steps, values = [line[1] for line in kept], [line[2] for line in kept]
    return steps, values, (kept[0][3], kept[-1][3])


def _are_numbers(row: Row, template: Template) -> bool:
    try:
        for at, text in enumerate(row):
            if at not in template.columns.names:
                float(text)
    except ValueError:
        return False
    return True
