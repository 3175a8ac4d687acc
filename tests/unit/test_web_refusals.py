"""Refusals are counted each, and said in the log once a minute for each kind."""

from __future__ import annotations

import logging

from stoker.web.refusals import SAY_AGAIN_AFTER_S, OncePerMinute, Refusals


class Clock:
    s = 100.0

    def __call__(self) -> float:
        return self.s


class Lines(logging.Handler):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.addFilter(OncePerMinute(clock))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def logger_of(lines: Lines, name: str) -> logging.Logger:
    logger = logging.Logger(name)
    logger.addHandler(lines)
    return logger


def test_a_line_is_written_once_a_minute_for_each_kind_and_tells_how_many_were_left_out() -> None:
    clock = Clock()
    lines = Lines(clock)
    log = logger_of(lines, "page")
    for number in range(1000):
        log.warning("no room for %d", number)
        log.warning("too large")
    assert lines.lines == ["no room for 0", "too large"]
    clock.s += SAY_AGAIN_AFTER_S - 0.001
    log.warning("too large")
    assert len(lines.lines) == 2
    clock.s += 0.001
    log.warning("too large")
    log.warning("too large")
    assert lines.lines[2:] == ["too large (and 1000 more like it)"]
    clock.s += SAY_AGAIN_AFTER_S
    log.warning("no room for %d", 7)
    assert lines.lines[3:] == ["no room for 7 (and 999 more like it)"]


def test_errors_of_different_kinds_are_told_apart() -> None:
    lines = Lines(Clock())
    log = logger_of(lines, "page")
    for error in (ValueError("x"), ValueError("y"), KeyError("x")):
        log.error("a request failed", exc_info=error)
    log.error("a request failed")
    assert len(lines.lines) == 3


def test_no_number_of_kinds_makes_the_filter_or_the_log_grow() -> None:
    lines = Lines(Clock())
    log = logger_of(lines, "page")
    for number in range(10_000):
        log.warning(f"kind {number}")
    assert len(lines.lines) <= 201
    [bound] = lines.filters
    assert isinstance(bound, OncePerMinute) and len(bound._kinds) <= 201


def test_refusals_are_counted_by_their_reason() -> None:
    refusals = Refusals()
    for reason in ("a", "b", "a"):
        refusals.count(reason)
    assert refusals.counts == {"a": 2, "b": 1}


def test_what_was_left_out_is_told_once() -> None:
    clock = Clock()
    lines = Lines(clock)
    log = logger_of(lines, "page")
    for _ in range(3):
        log.warning("too large")
        log.warning("too large")
        clock.s += SAY_AGAIN_AFTER_S
    assert lines.lines == ["too large", *["too large (and 1 more like it)"] * 2]
