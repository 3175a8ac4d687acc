"""Output that is meant to do harm: memory and time stay bounded, and names are only names."""

from __future__ import annotations

import json
import math
import time
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.metrics.extractor import MOST_NAMES, Extractor
from stoker.metrics.series import Series

MIB = 1 << 20


def found_in(pieces: Iterable[bytes]) -> dict[str, Series]:
    extractor, found = Extractor(), dict[str, Series]()
    for piece in pieces:
        for name, points in extractor.feed(piece):
            found.setdefault(name, Series()).extend(points)
    for name, points in extractor.end():
        found.setdefault(name, Series()).extend(points)
    return found


def peak_mib(pieces: Iterable[bytes]) -> tuple[dict[str, Series], float]:
    tracemalloc.start()
    try:
        return found_in(pieces), tracemalloc.get_traced_memory()[1] / MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("text", "value"), [("1e999", math.inf), ("-1e999", -math.inf)])
def test_a_number_that_is_too_large_is_infinite(text: str, value: float) -> None:
    output = f"step {text} loss={text}\n".encode() * 5 + f"loss={text}\n".encode()
    series = found_in([output])["loss"]
    assert series.last is not None and series.last[1] == value and series.not_finite == 6
    json.dumps(series.to_record(), allow_nan=False)


def test_an_infinite_epoch_of_a_bar_can_be_stored() -> None:
    extractor = Extractor()
    extractor.feed(b"epoch: 1e999\n3/9 [===>...] - 2ms/step - loss: 1e999\r")
    state = json.dumps(extractor.state(), allow_nan=False)
    other = Extractor()
    other.go_on(json.loads(state), [])
    assert other.end() == extractor.end() == [("loss", [(math.inf, math.inf)])]


@pytest.mark.timeout(900)  # Each allocation is traced, which takes its time.
def test_hundreds_of_thousands_of_names_take_bounded_memory() -> None:
    pieces = (
        b"".join(b"name_%d=1\n" % n for n in range(start, start + 10_000))
        for start in range(0, 300_000, 10_000)
    )
    found, peak = peak_mib(pieces)
    assert len(found) == MOST_NAMES and "name_0" in found
    assert peak < 64


def test_a_line_of_a_gigabyte_takes_bounded_memory_and_time() -> None:
    piece = b"loss=1 acc: 2 \x1b[31m|" * (MIB // 20)
    began_s = time.process_time()
    found, peak = peak_mib([*[piece] * 1024, b"\nloss=2\n"])
    assert [(name, series.last) for name, series in found.items()] == [("loss", (0, 2))]
    assert peak < 16
    assert time.process_time() - began_s < 20


def test_a_bar_may_name_what_means_something_elsewhere() -> None:
    extractor = Extractor()
    extractor.feed(b" 30%|###       | 3/9 [00:01<00:02, 3.00it/s, __proto__=7, constructor=8]\r")
    other = Extractor()
    other.go_on(json.loads(json.dumps(extractor.state())), [])
    assert dict(other.held) == {"__proto__": (3, 7), "constructor": (3, 8)}


ESCAPES = st.sampled_from([
    b"\x1b[31m", b"\x1b]0;evil\x07", b"\x1b]8;;http://x\x1b\\", b"\x1b[2J", b"\x1b", b"\x9b31m",
    b"\xc2\x9b2J", b"\x07", b"\x08", b"\xe2\x80\xae", b"\x7f", b"lo", b"ss", b"'", b'"',
    b"=1 ", b": 2 ",
])  # fmt: skip


@given(st.lists(ESCAPES, max_size=12))
def test_no_name_has_anything_that_a_terminal_acts_on(parts: list[bytes]) -> None:
    line = b"".join(parts) + b"=3"
    for name in found_in([(line + b"\n") * 5]):
        assert name.isprintable()


def test_colours_within_a_name_are_no_part_of_it() -> None:
    assert list(found_in([b"lo\x1b[31mss\x1b[0m=1\n"])) == ["loss"]
