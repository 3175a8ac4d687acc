"""An extractor that goes on where another was stopped finds what one finds that reads all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.metrics.extractor import Extractor
from stoker.metrics.patterns import read_pattern
from stoker.metrics.series import Series

SAID = Path(__file__).parents[1] / "unit" / "training_said"
PATTERNS = [read_pattern(r"own=final (\S+)"), read_pattern(r"acc=reached (?P<value>\S+)")]

COUNTS = st.sampled_from(["0", "1", "2", "9", "10", "09", "100", "3.0", "999999999999999999"])
VALUES = st.sampled_from(["0.25", "1e-3", "7", "nan", "-inf", "1e999", "0.3125", "12.5", "x"])
LINES = st.one_of(
    st.builds("Epoch {}: 50%|#####     | {}/{} [00:01<00:01, 9.9it/s, loss={}]\r".format,
              COUNTS, COUNTS, COUNTS, VALUES),
    st.builds(" 50%|#####     | {}/{} [00:01<00:01, 9.9it/s, loss={}, acc1={}]\r".format,
              COUNTS, COUNTS, VALUES, VALUES),
    st.builds("{}/{} [=====>....] - 1s 2ms/step - loss: {} - acc: {}\b\b\b\r".format,
              COUNTS, COUNTS, VALUES, VALUES),
    st.builds("train: 50%|#####     | {}/{} [00:01<?, step={}, loss={}]\x1b[A\n".format,
              COUNTS, COUNTS, COUNTS, VALUES),
    st.builds("Epoch {}/{}\n".format, COUNTS, COUNTS),
    st.builds("epoch {} loss: {}\n".format, COUNTS, VALUES),
    st.builds("step {} loss={} f{}={}\n".format, COUNTS, VALUES, COUNTS, VALUES),
    st.builds('{{"step": {}, "loss": {}}}\n'.format, COUNTS, VALUES),
    st.builds("final {} reached {}\n".format, VALUES, VALUES),
    st.sampled_from(["loss=", "\n", "\x1b[32m", "\0\n", "x" * 17_000, "\x1b[2K"]),
)  # fmt: skip
LOGS = st.lists(st.tuples(LINES, st.integers(1, 5)), max_size=12).map(
    lambda lines: "".join(line * times for line, times in lines).encode()
)


def found_by(extractor: Extractor, pieces: Iterable[bytes]) -> dict[str, Series]:
    found: dict[str, Series] = {}
    for batch in [*map(extractor.feed, pieces), extractor.end()]:
        for name, points in batch:
            found.setdefault(name, Series()).extend(points)
    return found


def line_by_line(output: bytes) -> tuple[Extractor, dict[str, Series]]:
    extractor = Extractor(PATTERNS)
    return extractor, found_by(extractor, output.splitlines(keepends=True))


def with_stops(output: bytes, cuts: Sequence[tuple[int, bool]]) -> dict[str, Series]:
    """What is found in pieces, with another extractor after some of them."""
    extractor, found = Extractor(PATTERNS), dict[str, Series]()
    stops = {place % (len(output) + 1): stops for place, stops in cuts}
    for start, end in pairwise(sorted({0, len(output), *stops})):
        for name, points in extractor.feed(output[start:end]):
            found.setdefault(name, Series()).extend(points)
        if stops.get(end):
            state = json.dumps(extractor.state(), allow_nan=False)
            extractor = Extractor(PATTERNS)
            extractor.go_on(json.loads(state), list(found))
    for name, points in extractor.end():
        found.setdefault(name, Series()).extend(points)
    return found


def records(found: dict[str, Series]) -> str:
    return json.dumps({name: one.to_record() for name, one in found.items()}, sort_keys=True)


BAR = "Epoch {}: 50%|#####     | {}/{} [00:01<00:01, 9.9it/s, loss={}]\r"


@given(LOGS, st.lists(st.tuples(st.integers(0, 5000), st.booleans()), max_size=6))
def test_neither_stops_nor_what_was_learned_before_change_anything(
    output: bytes, cuts: list[tuple[int, bool]]
) -> None:
    learned, expected = line_by_line(output)
    assert records(with_stops(output, cuts)) == records(expected)
    knows = Extractor(PATTERNS)
    knows._known = learned._known
    assert records(found_by(knows, [output])) == records(expected)


@pytest.mark.parametrize(
    "said",
    [
        # The end of an epoch is the beginning of the next.
        [(1, 99, 100), (1, 100, 100), (2, 0, 100), (2, 1, 100)],
        [(1, 50, 100), (1, 100, 200)],
        [(1, 7, 100), (1, 7, 100), (2, 7, 100)],
        [(1, 7, 100), (1, "07", 100)],
        [(1, 7, 100), ("1.0", 7, 100)],
        [*[(1, n, "3.5") for n in range(5)], (1, 7, 100), (1, 8, 100)],
        [(1, 10**17, 10**18 - 1), (1, 10**17 + 1, 10**18 - 1)],
        [(10**15, 1, 100), (10**15, 2, 100)],
    ],
)
def test_the_same_step_is_the_same_within_a_piece_and_beyond_it(said: list[Any]) -> None:
    known = "".join(BAR.format(1, n, 100, n) for n in range(5)).encode()
    output = known + "".join(BAR.format(*one, at) for at, one in enumerate(said)).encode()
    _, expected = line_by_line(output)
    assert records(with_stops(output, [(len(known), False)])) == records(expected)


@pytest.mark.parametrize("path", sorted(SAID.glob("*.txt")), ids=lambda path: path.stem)
def test_stops_in_the_output_of_real_trainings_change_nothing(path: Path) -> None:
    output = path.read_bytes()
    cuts = [(place, True) for place in range(0, len(output), 7)]
    assert records(with_stops(output, cuts)) == records(line_by_line(output)[1])
