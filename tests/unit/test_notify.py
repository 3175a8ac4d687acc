"""Messages: when they are kept back, what they do not give away, and what was sent before."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from stoker.daemon.addresses import quiet_until_ms
from stoker.notify.journal import Journal, Record
from stoker.notify.main import without_secrets
from stoker.notify.words import message, severity


def at(day: int, clock: str) -> int:
    hour, minute, second = map(int, clock.split(":"))
    return int(time.mktime((2026, 3, day, hour, minute, second, 0, 0, -1))) * 1000


@pytest.mark.parametrize(
    ("hours", "now", "until"),
    [
        ("22:00-08:00", (3, "21:59:59"), None),
        ("22:00-08:00", (3, "22:00:00"), (4, "08:00:00")),
        ("22:00-08:00", (3, "23:30:10"), (4, "08:00:00")),
        ("22:00-08:00", (4, "07:59:59"), (4, "08:00:00")),
        ("22:00-08:00", (4, "08:00:00"), None),
        ("12:30-13:30", (3, "12:45:01"), (3, "13:30:00")),
        ("12:30-13:30", (3, "13:30:00"), None),
        ("12:30-13:30", (3, "00:00:00"), None),
    ],
)
def test_quiet_hours_may_lie_around_midnight_and_end_at_their_minute(
    hours: str, now: tuple[int, str], until: tuple[int, str] | None
) -> None:
    assert quiet_until_ms(hours, at(*now)) == (None if until is None else at(*until))


def test_points_that_were_stopped_early_are_counted_and_are_no_trouble() -> None:
    counts = {"stopped": 3, "succeeded": 1}
    body = {"counts": counts, "sweep": True, "first_failed": None}
    notice = {"what": "group", "subject": "s", "body": body, "job": None}
    title, _ = message(notice, "box", lambda name: "")
    assert title == "sweep s has ended: 1 succeeded, 3 stopped early"
    assert severity(notice) == "success"


def test_a_secret_that_begins_as_another_does_is_hidden_whole() -> None:
    said = without_secrets("no user ada, or adas-password", "mailto://ada:adas-password@host.org")
    assert said == "no user ***, or ***"


def test_a_journal_that_is_shortened_still_knows_what_was_sent(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    first = Journal(path, 1)
    for notice in (4, 5, 6):
        first.begin((notice, "a"))
    first.end((5, "a"), None)
    first.end((6, "a"), "it was refused")
    Journal(path, 5)
    kept = Record(path)
    assert [kept.is_done(notice, "a") for notice in (4, 5, 6)] == [True, True, False]
    assert kept.why[6, "a"] == "it was refused"


def test_a_sender_without_the_end_of_a_sweep_does_not_load_what_reads_metrics() -> None:
    said = "import sys, stoker.notify.main; print([m for m in sys.modules if 'metrics' in m])"
    found = subprocess.run([sys.executable, "-c", said], capture_output=True, check=True, text=True)
    assert found.stdout == "[]\n"
