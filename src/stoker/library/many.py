"""Many jobs at once from Python: sweeps, feeds and batches, as the command line has them.

Thin translations: what is asked for becomes what `stoker sweep`, `feed` and `batch` are told, and
the same code queues it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.api.client import Client as Connection
from stoker.api.job_options import duration_said
from stoker.batch.entries import Entry
from stoker.batch.reading import Reading, read_entries
from stoker.errors import UsageError
from stoker.library.findings import Names
from stoker.metrics.gathering import objectives_of
from stoker.quantities import duration_ms, quoted, whole_number
from stoker.search.spec import Objective
from stoker.search.starting import Wanted, begin, planned
from stoker.submission import batch_queueing, sweeps
from stoker.submission.batches import COLUMNS, Translator, new_group
from stoker.submission.keywords import in_keywords, job_fields, values_of
from stoker.submission.lines import Command, LineReader, Refusal
from stoker.submission.profiling import profiled
from stoker.submission.surroundings import surroundings
from stoker.sweep import axes, notation
from stoker.sweep.axes import Axis
from stoker.sweep.filevalues import axes_from
from stoker.sweep.points import Choosing, Repeat, Space
from stoker.sweep.template import STYLES, Style
from stoker.sweep.values import from_data, parameter_name

_AT_A_TIME = 1_000
_RERUNS = (None, "failed", "all")


# --- sweeps ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueuedSweep:
    """A sweep that was queued: its jobs are the group of its name."""

    name: str
    ids: list[int]  # the jobs that were queued now
    count: int  # of its points
    succeeded_before: int
    unfinished: int  # points whose job is queued or running already


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """What `Client.sweep` was asked for."""

    command: str | Sequence[str] | None
    params: Mapping[str | tuple[str, ...], Any]
    file: str | os.PathLike[str] | None
    samples: int | None
    seed: int
    shuffle: bool
    where: str | Sequence[str]
    repeat: Mapping[str, int] | None
    style: str
    rerun: str | None
    max_running: int | None
    name: str | None
    options: Mapping[str, Any]


def sweep(connection: Connection, spec: SweepSpec) -> QueuedSweep:
    """Queue a parameter space, one job per point."""
    if spec.rerun not in _RERUNS:
        raise UsageError(f"rerun: {quoted(str(spec.rerun))} is not known", "failed or all")
    plan = sweeps.plan(_spec(spec))
    queued = sweeps.queue(connection, plan, spec.rerun, spec.max_running)
    return QueuedSweep(plan.name, queued.ids, len(plan.jobs), queued.done, queued.unfinished)


def search_wanted(minimize: Names, maximize: Names, has_file: bool) -> Wanted:
    """What is searched for, in Python's words; a file may say that too."""
    said = [[one] if isinstance(one, str) else list(one) for one in (minimize, maximize)]
    goals = [Objective(one.name, "max" if one.goal == "max" else "min")
             for one in objectives_of(*said)]  # fmt: skip
    if not goals and not has_file:
        raise UsageError("it was not said what to search for", 'write e.g. minimize="val_loss"')
    return Wanted(goals)


def span_ms(span: Any) -> int | None:
    """A time, as `for_` says it."""
    return None if span is None else duration_ms(str(duration_said(span)), likely="dh")


def count_of(keyword: str, count: int | None) -> int | None:
    """A number from 1, as the command line takes it."""
    try:
        return None if count is None else whole_number(str(count), 1, 1_000_000)
    except UsageError as error:
        raise UsageError(f"{keyword}: {error.message}", error.hint) from None


def search(connection: Connection, spec: SweepSpec, wanted: Wanted) -> str:
    """Begin a search, or go on with it; its name."""
    if spec.rerun not in (None, "failed"):
        raise UsageError(f"rerun: {quoted(str(spec.rerun))} is not known of a search", "failed")
    if spec.file is None and not (spec.samples or wanted.until or wanted.for_ms):
        raise UsageError(
            "the search has no end", 'add samples=60, for_="8h" or until="METRIC < NUMBER"'
        )
    try:
        asked = planned(_spec(spec), wanted, spec.max_running)
        begin(connection, asked, rerun=spec.rerun is not None)
    except UsageError as error:
        raise in_keywords(error) from None
    return asked.search.name


def _spec(spec: SweepSpec) -> sweeps.SweepSpec:
    axes = tuple(_axis(name, values) for name, values in spec.params.items())
    where = [spec.where] if isinstance(spec.where, str) else list(spec.where)
    options = dict(spec.options)
    files = {key: os.fspath(options.pop(key)) for key in ("out", "err") if options.get(key)}
    job = job_fields(options, front_end="sweep", words=_words(spec.command))
    request = surroundings() | {"jobs": [job]}
    request["cwd"] = job.get("cwd", request["cwd"])
    return sweeps.SweepSpec(
        Space(axes, _repeat(spec.repeat)),
        Choosing(spec.samples, None, spec.shuffle, spec.seed, where),
        _words(spec.command),
        _style(spec.style),
        spec.name,
        request,
        files,
        None if spec.file is None else os.fspath(spec.file),
    )


def _axis(name: str | tuple[str, ...], values: Any) -> Axis:
    """The axis that some Python values describe; text is read as on the command line."""
    if isinstance(name, tuple):
        names = [parameter_name(one) for one in name]
        rows = [tuple(from_data(one) for one in row) for row in values]
        if any(len(row) != len(names) for row in rows):
            raise UsageError(
                f"{', '.join(names)}: each row must have {len(names)} values", "one for each name"
            )
        return axes.listed(names, rows)
    if isinstance(values, str):
        return notation.parsed(f"{name}={values}")
    if isinstance(values, Mapping):
        [axis] = axes_from({name: values})
        return axis
    several = values if isinstance(values, Iterable) else [values]
    return axes.listed((parameter_name(name),), [(from_data(_plain(one)),) for one in several])


def _plain(value: Any) -> Any:
    """A number of another library's as Python's own."""
    item = getattr(value, "item", None)
    return item() if callable(item) and not isinstance(value, str | bytes) else value


def _repeat(repeat: Mapping[str, int] | None) -> Repeat | None:
    if repeat is None:
        return None
    if len(repeat) != 1:
        raise UsageError("repeat has one name and a count", 'write e.g. repeat={"seed": 3}')
    [(name, count)] = repeat.items()
    if not isinstance(count, int) or count < 1:
        raise UsageError(f"repeat: {count} is not a count", 'write e.g. repeat={"seed": 3}')
    return Repeat(name, count)


def _style(style: str) -> Style:
    for known in STYLES:
        if style == known:
            return known
    raise UsageError(f"style: {quoted(style)} is not known", " or ".join(STYLES))


def _words(command: str | Sequence[str] | None) -> list[str]:
    """A command as a sweep takes it: one word is for the shell, several are run as they are."""
    if command is None or isinstance(command, str):
        return [command] if command else []
    words = [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in command]
    if len(words) == 1:
        import shlex

        return [shlex.quote(words[0])]
    return words


# --- feeds ----------------------------------------------------------------------------------------


def commands(lines: str | os.PathLike[str] | Iterable[str]) -> Iterator[list[str]]:
    """Commands as they can be queued together; of what is known beforehand all are looked at first.

    A string is text with one command per line, a path a file of such; of anything else each item
    is a line (or several), and is queued as it comes.
    """
    if isinstance(lines, os.PathLike):
        try:
            with open(lines, "rb") as file:
                whole = [file.read()]
        except OSError as error:
            raise UsageError(f"can't read {lines}: {error.strerror}", "check its name") from None
    elif isinstance(lines, str):
        whole = [lines.encode()]
    elif isinstance(lines, Sequence):
        whole = [_line(line) for line in lines]
    else:
        yield from _as_they_come(lines)
        return
    reader = LineReader()
    found = [_good(item) for piece in whole for item in reader.feed(piece)]
    found += [_good(item) for item in reader.finish()]
    for start in range(0, len(found), _AT_A_TIME):
        yield found[start : start + _AT_A_TIME]


def _as_they_come(lines: Iterable[str]) -> Iterator[list[str]]:
    reader = LineReader()
    for line in lines:
        found = [_good(item) for item in reader.feed(_line(line))]
        if found:
            yield found
    found = [_good(item) for item in reader.finish()]
    if found:
        yield found


def _line(line: str) -> bytes:
    if not isinstance(line, str):
        raise UsageError(f"a line is text, not {type(line).__name__}", "give one command per line")
    return line.removesuffix("\n").encode() + b"\n"


def _good(item: Command | Refusal) -> str:
    if isinstance(item, Refusal):
        raise UsageError(f"line {item.number}: {item.what}", item.hint)
    return item.text


# --- batches --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueuedBatch:
    """The jobs of a file, or of rows, in the order in which they were queued."""

    group: str
    ids: list[int]


def batch(
    connection: Connection,
    source: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    reading: Reading,
    profile_epochs: int | None,
    options: Mapping[str, Any],
) -> QueuedBatch:
    """Queue all jobs of a file or of rows, or none of them."""
    defaults = values_of(options)
    group = defaults.pop("group", None)
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        name = os.path.basename(path)
        entries, size = read_entries(path, name, reading, COLUMNS)
    else:
        name, size = "rows", reading.batch_size
        entries = _entries(source)
    if not entries and size is None:
        raise UsageError(f"{name} has no jobs in it", "give one row per job")
    shared = surroundings()
    group = group or new_group(name)
    if not entries:
        return QueuedBatch(group, [])
    translator = Translator(name, defaults, shared["cwd"], shared["env"], group)
    jobs = translator.planned(entries, size)
    jobs, short = profiled(connection, name, jobs, profile_epochs, shared["cwd"])
    batch_queueing.number(connection, jobs, short, shared["cwd"])
    return QueuedBatch(group, batch_queueing.queue(connection, jobs, name, shared)[short:])


def _entries(rows: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Rows are read as those of a file of JSON lines are; numbers in errors count them from 1."""
    from stoker.batch.documents import json_lines

    texts = []
    for number, row in enumerate(rows, 1):
        try:
            texts.append(json.dumps(dict(row), default=_json_form))
        except (TypeError, ValueError) as error:
            raise UsageError(f"rows, line {number}: {error}", "give plain values") from None
    return json_lines("\n".join(texts), "rows")


def _json_form(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    plain = _plain(value)
    if plain is value:
        raise TypeError(f"{type(value).__name__} has no text form")
    return plain
