"""A play as a picture: which job was on which GPU when, and how many GPUs were in use."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.core.fit import natural
from stoker.sim.figures import busy
from stoker.sim.play import Ran
from stoker.text import duration_text
from stoker.text.svg import (
    COLOURS,
    GRID,
    WIDTH,
    box,
    heading,
    line,
    line_through,
    picture,
    words,
)

MOST_GPUS = 64  # that are shown one by one
MOST_STAYS = 5_000  # that are
_LEFT, _RIGHT = 70, 20
_CURVE, _HEAD, _FOOT = 90, 40, 46
_POINTS = 400  # of the curve


def drawn(plays: Sequence[tuple[str, Sequence[Ran], int]]) -> str:
    """The picture of some plays, each with its title and its number of GPUs, over one axis."""
    first_ms = min((one.arrival.at_ms for _, ran, _ in plays for one in ran), default=0)
    ends = [one.ended_ms for _, ran, _ in plays for one in ran if one.ended_ms is not None]
    span_ms = max(1, max(ends, default=first_ms) - first_ms)
    colours = _colours([one for _, ran, _ in plays for one in ran])
    parts: list[str] = []
    top = 0.0
    for title, ran, gpus in plays:
        parts += _one(title, ran, gpus, top, first_ms, span_ms, colours)
        top += _height(ran, gpus)
    return picture(top, parts)


def _row(gpus: int) -> int:
    """The height of one GPU: where there are few, jobs that share them can be told apart."""
    return 36 if gpus <= 8 else 18


def _height(ran: Sequence[Ran], gpus: int) -> float:
    return _HEAD + (_row(gpus) * gpus + 14 if _each_shown(ran, gpus) else 0) + _CURVE + _FOOT


def _each_shown(ran: Sequence[Ran], gpus: int) -> bool:
    return gpus <= MOST_GPUS and sum(len(one.stays) for one in ran) <= MOST_STAYS


def _colours(ran: Sequence[Ran]) -> dict[str, str]:
    """One for each name or kind of jobs, the most frequent first; they repeat."""
    counts: dict[str, int] = {}
    for one in ran:
        counts[_sort(one)] = counts.get(_sort(one), 0) + 1
    ordered = sorted(counts, key=lambda sort: (-counts[sort], sort))
    return {sort: COLOURS[n % len(COLOURS)] for n, sort in enumerate(ordered)}


def _sort(one: Ran) -> str:
    return one.arrival.name or one.arrival.group or ""


def _one(
    title: str, ran: Sequence[Ran], gpus: int, top: float, first_ms: int, span_ms: int,
    colours: dict[str, str],
) -> list[str]:  # fmt: skip
    across = (WIDTH - _LEFT - _RIGHT) / span_ms
    parts = [f'<g transform="translate(0 {top:g})">', heading(title)]
    y, high = float(_HEAD), _row(gpus)
    if _each_shown(ran, gpus):
        names = _names(ran, gpus)
        for number, name in enumerate(names):
            middle = y + high * number + high / 2 + 4
            parts.append(words(_LEFT - 8, middle, f"GPU {name}", "end", 11))
            parts.append(line(_LEFT, y + high * (number + 1) - 1, WIDTH - _RIGHT,
                              y + high * (number + 1) - 1, GRID))  # fmt: skip
        rows = {name: y + high * number for number, name in enumerate(names)}
        parts += _stays(ran, rows, high, first_ms, across, colours)
        y += high * gpus + 14
    bottom = y + _CURVE
    for percent in (0, 50, 100):
        height = bottom - (_CURVE - 10) * percent / 100
        parts.append(line(_LEFT, height, WIDTH - _RIGHT, height, GRID))
        parts.append(words(_LEFT - 8, height + 4, f"{percent} %", "end", 11))
    points = [
        (_LEFT + across * (at_ms - first_ms), bottom - (_CURVE - 10) * part)
        for at_ms, part in in_use(ran, gpus, first_ms, span_ms)
    ]
    parts.append(line_through(points, COLOURS[0], 1.5))
    for part in range(5):
        at = _LEFT + (WIDTH - _LEFT - _RIGHT) * part / 4
        told = duration_text(span_ms * part // 4)
        parts.append(words(at, bottom + 16, told, "end" if part == 4 else "middle", 11))
    parts.append(words(_LEFT, bottom + 32, "GPUs in use, over time", "start", 11))
    return [*parts, "</g>"]


def _names(ran: Sequence[Ran], gpus: int) -> list[str]:
    used = {gpu for one in ran for stay in one.stays for gpu in stay.gpus}
    return sorted(used | {str(n) for n in range(gpus)}, key=natural)[:gpus]


def _stays(
    ran: Sequence[Ran], rows: dict[str, float], high: int, first_ms: int, across: float,
    colours: dict[str, str],
) -> list[str]:  # fmt: skip
    """A box for each stay; those that share a GPU are one above the other."""
    parts = []
    of_gpu: dict[str, list[tuple[int, int, Ran, int]]] = {}
    for job_id, one in enumerate(ran, 1):
        for stay in one.stays:
            if stay.until_ms is not None:
                for gpu in stay.gpus:
                    of_gpu.setdefault(gpu, []).append((stay.from_ms, stay.until_ms, one, job_id))
    for gpu, stays in of_gpu.items():
        ordered = sorted(stays, key=lambda stay: (stay[0], stay[3]))
        lanes: list[int] = []  # until when each is taken
        placed = []
        for since, until, one, job_id in ordered:
            lane = next((n for n, end in enumerate(lanes) if end <= since), len(lanes))
            lanes[lane : lane + 1] = [until]
            placed.append((since, until, one, job_id, lane))
        height = (high - 3) / max(1, len(lanes))
        for since, until, one, job_id, lane in placed:
            what = f"job {job_id} {_sort(one)}: {duration_text(until - since)}"
            parts.append(box(
                _LEFT + across * (since - first_ms), rows[gpu] + height * lane,
                max(0.4, across * (until - since)), max(0.6, height - 0.4), colours[_sort(one)],
                what,
            ))  # fmt: skip
    return parts


def in_use(ran: Sequence[Ran], gpus: int, first_ms: int, span_ms: int) -> list[tuple[float, float]]:
    """The part of all GPUs that had a job, on average over each of many steps of time."""
    step = span_ms / _POINTS
    filled = [0.0] * _POINTS
    for spans in busy(ran).values():
        for since, until in spans:
            begin, end = (since - first_ms) / step, (until - first_ms) / step
            number = int(begin)
            while number < min(end, _POINTS):
                filled[number] += min(end, number + 1) - max(begin, number)
                number += 1
    points = []
    for number, part in enumerate(filled):
        share = part / max(1, gpus)
        points += [(first_ms + step * number, share), (first_ms + step * (number + 1), share)]
    return points
