"""The daemon's own log: what is counted, and what happens when it is full."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.daemon import own_log
from stoker.daemon.own_log import MOST_ALIKE, OwnLog


class Log:
    """A log in a file, with a clock that is set by hand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 0.0
        self.fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self.handler = OwnLog(str(path), lambda: self.now, self.fd)
        self.logger = logging.Logger("test")
        self.logger.addHandler(self.handler)

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path / "daemon.log")
    yield made
    os.close(made.fd)


def test_a_line_that_repeats_itself_is_written_a_few_times_and_then_counted(log: Log) -> None:
    for number in range(5_000):
        log.logger.warning("no client can come in: %d", number)
    log.logger.warning("something else")
    assert len(log.lines()) == MOST_ALIKE + 1
    log.now = 61
    log.logger.warning("later")
    assert log.lines()[-2:][0].startswith(f"{5_000 - MOST_ALIKE} more such lines")
    assert "no client can come in: 4999" in log.lines()[-2]
    log.logger.warning("no client can come in: %d", 1)
    assert "no client can come in: 1" in log.lines()[-1]


def test_tracebacks_are_counted_too(log: Log) -> None:
    for _ in range(1_000):
        try:
            raise OSError(24, "Too many open files")
        except OSError:
            log.logger.exception("a turn failed")
    text = log.path.read_text()
    assert text.count("Traceback") == MOST_ALIKE


def test_what_was_only_counted_is_told_at_the_end(log: Log) -> None:
    for _ in range(MOST_ALIKE + 7):
        log.logger.warning("again")
    log.handler.close()
    assert log.lines()[-1].startswith("7 more such lines")


def test_messages_without_number_do_not_fill_the_memory(log: Log) -> None:
    for number in range(2_000):
        log.logger.warning(f"line {number}")
    assert len(log.handler._told) <= 257


def test_a_full_log_begins_anew_and_what_it_had_is_kept_beside(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_log, "MOST_BYTES", 10_000)
    other = os.open(log.path, os.O_WRONLY | os.O_APPEND)  # that of the keeper, say
    for number in range(1_000):
        log.now = number * 100.0
        log.logger.warning("line %d %s", number, "x" * 100)
        os.write(other, b"from another process\n")
    os.close(other)
    kept = log.path.with_name("daemon.log.1")
    assert sorted(path.name for path in log.path.parent.iterdir()) == ["daemon.log", "daemon.log.1"]
    assert 9_000 < kept.stat().st_size < 11_000 and log.path.stat().st_size < 11_000
    assert kept.stat().st_mode & 0o077 == 0
    assert "line 999 " in log.path.read_text() + kept.read_text()


def test_a_log_that_its_user_has_sent_elsewhere_is_left_alone(
    log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(own_log, "MOST_BYTES", 1_000)
    log.path.rename(tmp_path / "mine.log")
    for number in range(100):
        log.now = number * 100.0
        log.logger.warning("line %d %s", number, "x" * 100)
    assert (tmp_path / "mine.log").read_text().count("line ") == 100
