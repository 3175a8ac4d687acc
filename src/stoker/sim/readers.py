"""Readers of traces: a file becomes jobs, whoever has written it.

Which reader is meant is told by the columns. A row that makes no sense ends the reading with its
line; rows that are of no use here, such as pods without a GPU, are left out and counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

from stoker.batch.csv_file import decoded, read_rows
from stoker.errors import Failed, UsageError, quoted
from stoker.quantities import duration_ms, gpu_need, memory_mib
from stoker.sim.traces import TraceJob

SECOND_MS = 1_000
_LONGEST_S = 1e10


@dataclass(slots=True)
class Trace:
    """The jobs of a trace, the first of which comes at moment 0."""

    jobs: list[TraceJob]
    kind: str  # who writes such files
    left_out: Counter[str] = field(default_factory=Counter)  # rows, by why


class _LeftOut(Exception):
    """A row that is of no use, and why."""


class _Row:
    """One row, by the names of its columns."""

    def __init__(self, line: int, cells: dict[str, str]) -> None:
        self.line = line
        self._cells = cells

    def get(self, name: str) -> str:
        """A cell; empty where there is none."""
        return self._cells.get(name, "").strip()

    def seconds(self, name: str) -> int:
        """A number of seconds, or a duration with its unit; in ms."""
        text = self.get(name)
        number = _number(text)
        if number is None:
            return _said(name, text, lambda: duration_ms(text))
        if not 0 <= number <= _LONGEST_S:
            raise UsageError(f"{name} {quoted(text)} can't be", "write a number of seconds, or 2h")
        return round(number * SECOND_MS)

    def number(self, name: str, least: float = 0.0) -> float:
        """A number."""
        number = _number(self.get(name))
        if number is None or not least <= number <= _LONGEST_S * SECOND_MS:
            raise UsageError(f"{name} {quoted(self.get(name))} is not a number that it can be")
        return number

    def whole(self, name: str, least: int = 0) -> int:
        """A whole number."""
        number = self.number(name, least)
        if number != int(number):
            raise UsageError(f"{name} {quoted(self.get(name))} is not a whole number")
        return int(number)

    def moment(self, name: str) -> int:
        """A moment: a number of seconds, or a date with a time; in ms."""
        text = self.get(name)
        number = _number(text)
        if number is not None:
            return round(number * SECOND_MS)
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(
                f"{name} {quoted(text)} is not a moment", "write seconds, or 2026-12-01 08:30"
            ) from None
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * SECOND_MS)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _said(name: str, text: str, read: Callable[[], int]) -> int:
    try:
        return read()
    except UsageError as error:
        raise UsageError(f"{name}: {error.message}", error.hint) from None


# ---------------------------------------------------------------------- one reader for each


def _own(row: _Row) -> TraceJob:
    """Our own columns; docs/scheduling.md says what they are."""
    gpus, share = _said_gpus(row.get("gpus") or "1")
    return TraceJob(
        row.moment("submit"),
        max(1, row.seconds("run")),
        gpus,
        share,
        _memory(row, "mem"),
        _memory(row, "peak"),
        (min(100, round(row.number("use"))),) if row.get("use") else None,
        row.get("kind") or row.get("name"),
        row.get("group") or None,
        round(row.number("priority", -1e9)) if row.get("priority") else 0,
        row.seconds("limit") if row.get("limit") else None,
        row.get("name"),
    )


def _said_gpus(text: str) -> tuple[int, int | None]:
    try:
        whole, share = gpu_need(text)
    except UsageError as error:
        raise UsageError(f"gpus: {error.message}", error.hint) from None
    if whole == 0:
        raise _LeftOut("without a GPU")
    return whole or 1, None if share is None else round(share * 1000)


def _memory(row: _Row, name: str) -> int | None:
    text = row.get(name)
    return _said(name, text, lambda: memory_mib(text)) if text else None


def _philly(row: _Row) -> TraceJob:
    """Microsoft's Philly, as AdaptDL has it."""
    gpus = row.whole("num_gpus", 1)
    return TraceJob(
        row.moment("timestamp"), max(1, row.seconds("duration")), gpus,
        kind=f"{row.get('cluster')} on {gpus}", group=row.get("cluster") or None,
    )  # fmt: skip


def _muri(row: _Row) -> TraceJob:
    """Muri's. What an iteration takes of three things is told; the GPU's cores are the second."""
    whole = row.number("iteration_time", 1e-9)
    parts = [row.number(f"resource_time_{n}") / whole for n in (1, 0, 2)]
    model, gpus = f"{row.get('model_name')} {row.get('batch_size')}", row.whole("num_gpu", 1)
    return TraceJob(
        round(row.number("submit_time")), max(1, round(row.number("duration"))), gpus,
        use=tuple(min(100, round(100 * part)) for part in parts),
        kind=f"{model} on {gpus}", name=model,
    )  # fmt: skip


def _openb(row: _Row) -> TraceJob:
    """Alibaba's GPU cluster of 2023: pods, many with a share of a GPU."""
    if not row.get("scheduled_time"):
        raise _LeftOut("never scheduled")
    gpus, milli = row.whole("num_gpu"), row.whole("gpu_milli")
    if not gpus:
        raise _LeftOut("without a GPU")
    runs_ms = row.seconds("deletion_time") - row.seconds("scheduled_time")
    return TraceJob(
        row.seconds("creation_time"), max(1, runs_ms), gpus,
        share_milli=milli if gpus == 1 and 0 < milli < 1000 else None, name=row.get("name"),
    )  # fmt: skip


def _sacct(row: _Row) -> TraceJob:
    """`sacct -P` of Slurm. Steps of jobs are left out, except for what they used."""
    if "." in row.get("jobid"):
        raise _LeftOut("steps of jobs")
    resources = f"{row.get('alloctres')},{row.get('reqtres')}"
    gpus = _resource(resources, "gres/gpu")
    if not gpus:
        raise _LeftOut("without a GPU")
    elapsed = row.get("elapsedraw")
    runs_ms = row.seconds("elapsedraw") if elapsed else _slurm_time_ms(row.get("elapsed"))
    if not runs_ms:
        raise _LeftOut("never ran")
    used = row.get("tresusageinmax")
    peak = _resource(used, "gres/gpumem")
    use = _resource(used, "gres/gpuutil")
    limit = row.get("timelimit")
    return TraceJob(
        row.moment("submit"), runs_ms, gpus, peak_mib=peak,
        use=None if use is None else (min(100, use),), kind=row.get("jobname"),
        group=row.get("account") or row.get("user") or None,
        limit_ms=_slurm_time_ms(limit) if limit[:1].isdigit() else None, name=row.get("jobname"),
    )  # fmt: skip


_UNITS = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


def _resource(text: str, name: str) -> int | None:
    """`gres/gpu=2` in a list of Slurm's; memory in MiB. Types of GPUs count together."""
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if key != name or not equals:
            continue
        unit = _UNITS.get(value[-1:].upper())
        number = _number(value[:-1] if unit else value)
        return None if number is None else round(number * (unit or 1))
    return None


def _slurm_time_ms(text: str) -> int:
    """`1-02:03:04`, `02:03:04`, `03:04`."""
    days, dash, clock = text.partition("-")
    if not dash:
        days, clock = "0", text
    try:
        parts = [int(part) for part in clock.partition(".")[0].split(":")]
        seconds = 0
        for part in parts:
            seconds = seconds * 60 + part
        return (int(days) * 86_400 + seconds) * SECOND_MS
    except ValueError:
        raise UsageError(f"{quoted(text)} is not a time of Slurm's", "e.g. 1-02:03:04") from None


@dataclass(frozen=True, slots=True)
class _Reader:
    name: str
    columns: frozenset[str]  # all of these say that it is meant
    read: Callable[[_Row], TraceJob]


READERS = (
    _Reader("sacct", frozenset({"jobid", "submit"}), _sacct),
    _Reader("Stoker", frozenset({"submit", "run"}), _own),
    _Reader("Philly", frozenset({"timestamp", "duration", "num_gpus"}), _philly),
    _Reader("Muri", frozenset({"submit_time", "duration", "num_gpu", "iteration_time"}), _muri),
    _Reader("openb", frozenset({"gpu_milli", "num_gpu", "scheduled_time"}), _openb),
)


def read_trace(path: Path) -> Trace:
    """The jobs of a file."""
    try:
        text = decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from None
    first = text.lstrip("\n").partition("\n")[0]
    trace = _gavel(path, text) if first.count("\t") >= 9 else _table(path, text, first)
    if not trace.jobs:
        why = ", ".join(f"{count} {what}" for what, count in trace.left_out.items())
        raise UsageError(f"{path} has no job that could be played" + (f": {why}" if why else ""))
    return replace(trace, jobs=from_zero(trace.jobs))


def _table(path: Path, text: str, first: str) -> Trace:
    source = str(path)
    if "," not in first and "|" in first:  # as `sacct -P` writes it
        lines = enumerate(text.splitlines(), 1)
        rows = [(line, one.rstrip("|").split("|")) for line, one in lines if one.strip()]
    else:
        rows = [(row.line, row.cells) for row in read_rows(text, source)]
    if not rows:
        raise UsageError(f"{source} is empty")
    names = [cell.strip().lower() for cell in rows[0][1]]
    reader = next((one for one in READERS if one.columns <= set(names)), None)
    if reader is None:
        raise UsageError(
            f"{source}, line {rows[0][0]}: no trace has the columns {quoted(', '.join(names))}",
            "it needs at least submit and run: see `stoker simulate --help`",
        )
    trace = Trace([], reader.name)
    for line, cells in rows[1:]:
        row = _Row(line, dict(zip(names, cells, strict=False)))
        if len(cells) > len(names):
            raise UsageError(f"{source}, line {line}: {len(cells)} cells, {len(names)} columns")
        try:
            trace.jobs.append(reader.read(row))
        except _LeftOut as error:
            trace.left_out[str(error)] += 1
        except UsageError as error:
            raise UsageError(f"{source}, line {line}: {error.message}", error.hint) from None
    return trace


# ---------------------------------------------------------------------- gavel

_SPEEDS = "simulation_throughputs.json"
_SPEEDS_OF = "v100"


def _gavel(path: Path, text: str) -> Trace:
    """Gavel's: so many steps of a type of job, whose speed alone and in pairs was measured."""
    speeds_path = path.with_name(_SPEEDS)
    try:
        speeds = json.loads(speeds_path.read_bytes())[_SPEEDS_OF]
    except (OSError, ValueError, KeyError):
        raise Failed(
            f"{speeds_path}, with how fast the jobs of {path.name} are, can't be read"
        ) from None
    trace = Trace([], "gavel")
    for line, one in enumerate(text.splitlines(), 1):
        if not one.strip():
            continue
        cells = one.split("\t")
        try:
            sort, steps, gpus, at_s = cells[0], float(cells[5]), int(cells[6]), float(cells[-1])
            known = speeds[str((sort, gpus))]
            alone = float(known["null"])
            runs_ms, at_ms = round(steps / alone * SECOND_MS), round(at_s * SECOND_MS)
        except (IndexError, ValueError, KeyError, ZeroDivisionError):
            raise UsageError(
                f"{path}, line {line}: not a job of gavel's whose speed is in {_SPEEDS}"
            ) from None
        twin = (speeds.get(str((sort, 1))) or {}).get(str((sort, 1)))
        use, kind = _use(speeds, sort, twin), f"{sort} on {gpus}"
        trace.jobs.append(TraceJob(at_ms, max(1, runs_ms), gpus, use=use, kind=kind, name=sort))
    return trace


def _use(speeds: dict[str, dict[str, float]], sort: str, twin: object) -> tuple[int, ...] | None:
    """Two alike that each run at 60 % of their speed use 83 % of a GPU each."""
    if not isinstance(twin, list) or not twin[0]:
        return None
    part = float(twin[0]) / float(speeds[str((sort, 1))]["null"])
    return (max(1, min(100, round(50 / part))),)


def from_zero(jobs: Sequence[TraceJob]) -> list[TraceJob]:
    """The same jobs; the first comes at moment 0."""
    first_ms = min((one.at_ms for one in jobs), default=0)
    return [replace(one, at_ms=one.at_ms - first_ms) for one in jobs]
