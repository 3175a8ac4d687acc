"""Moments as people write them, turned into milliseconds since the epoch; what is "now" is told."""

from __future__ import annotations

import time

from stoker.errors import UsageError
from stoker.quantities import duration_ms, is_digits, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def moment_ms(text: str, now_ms: int) -> int:
    """ "22:00" (the next one), "+2h", "2026-12-01T08:00" (local time unless an offset is given)."""
    words = text.strip()
    if words.startswith("+"):
        return now_ms + duration_ms(words[1:], likely="mh")
    clock = _clock(words)
    if clock is not None:
        return _next_clock_ms(clock, now_ms)
    at_ms = _date_ms(words)
    if at_ms is None:
        raise UsageError(
            f"{quoted(text)} is not a time", "write e.g. 22:00, +2h or 2026-12-01T08:00"
        )
    if at_ms < now_ms:
        raise UsageError(f"{quoted(text)} has passed", "write a time to come, e.g. 22:00 or +2h")
    return at_ms


def past_moment_ms(text: str, now_ms: int) -> int:
    """ "2h" ago, "22:00" (the last one), "2026-12-01", "2026-12-01T08:00"."""
    words = text.strip()
    clock = _clock(words)
    if clock is not None:
        return max(at_ms for at_ms in _clocks_ms(clock, now_ms, (-1, 0)) if at_ms <= now_ms)
    at_ms = _date_ms(words)
    if at_ms is None:
        return max(0, now_ms - duration_ms(words, likely="mh"))
    if at_ms > now_ms:
        raise UsageError(f"{quoted(text)} is yet to come", "write a time that has passed, e.g. 2h")
    return at_ms


def _next_clock_ms(clock: tuple[int, int, int], now_ms: int) -> int:
    return min(at_ms for at_ms in _clocks_ms(clock, now_ms, (0, 1, 2)) if at_ms > now_ms)


def _clocks_ms(
    clock: tuple[int, int, int], now_ms: int, days_ahead: tuple[int, ...]
) -> Iterator[int]:
    """This time of day, so many days ahead.

    Midnight is worked out by mktime, so that months end and clocks are put forward as they do where
    the user lives.
    """
    today = time.localtime(now_ms // 1000)
    for days in days_ahead:
        day = today.tm_mday + days
        yield int(time.mktime((today.tm_year, today.tm_mon, day, *clock, 0, 0, -1))) * 1000


def _clock(text: str) -> tuple[int, int, int] | None:
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(is_digits(p) and len(p) <= 2 for p in parts):
        return None
    if len(parts[1]) != 2 or len(parts[-1]) != 2:
        return None
    hour, minute, second = (*map(int, parts), 0)[:3]
    return (hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None


def _date_ms(text: str) -> int | None:
    date_part, clock_part = text[:10], text[10:]
    year_month_day = date_part.split("-")
    if [len(p) for p in year_month_day] != [4, 2, 2] or not all(map(is_digits, year_month_day)):
        return None
    year, month, day = map(int, year_month_day)
    clock: tuple[int, int, int] | None = (0, 0, 0)
    offset_s: int | None = None
    if clock_part:
        if clock_part[0] not in "Tt ":
            return None
        clock_part, offset_s = _split_offset(clock_part[1:].strip())
        clock = _clock(clock_part)
    if clock is None or year < 1970:
        return None
    from datetime import UTC, datetime  # slow to load, and most jobs have no date

    try:
        moment = datetime(year, month, day, *clock, tzinfo=UTC)
        if offset_s is None:
            return int(time.mktime((year, month, day, *clock, 0, 0, -1))) * 1000
    except (ValueError, OverflowError):
        return None
    return (int(moment.timestamp()) - offset_s) * 1000


def _split_offset(clock: str) -> tuple[str, int | None]:
    """The time of day and its offset from UTC in seconds; a bad offset spoils the time of day."""
    if clock[-1:] in ("Z", "z"):
        return clock[:-1], 0
    for sign, factor in (("+", 1), ("-", -1)):
        before, found, after = clock.partition(sign)
        if found:
            digits = after.replace(":", "", 1)
            if not is_digits(digits) or len(digits) not in (2, 4) or int(digits[2:] or 0) > 59:
                return "", None
            return before.strip(), factor * (int(digits[:2]) * 3600 + int(digits[2:] or 0) * 60)
    return clock, None
