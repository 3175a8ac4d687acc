"""What a job says of itself: a line in the file of its attempt, `$STOKER_METRICS`.

Law: a report is never the reason why a training fails. Outside of a job nothing is done; a full
disk or a value that is no number is no error, but what is left out is told once on stderr. The
file is opened for each report, because a program may close all files, or fork. One write at the
end of the file is one line, so the lines of several processes do not mix.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "STOKER_METRICS"
MOST_FILE_BYTES = 256 << 20
MOST_LINE_BYTES = 4096
_MOST_NAME = 100
_is_told = False  # that something was left out


def report(step: object = None, /, *more: object, **metrics: object) -> bool:
    """Record metrics of this job, as in `report(step=3, loss=0.31)`; whether they were recorded.

    Values are numbers, or what `float` takes: scalars of NumPy and PyTorch.
    """
    if more:
        _left_out("a value without a name")
    return report_all(metrics if step is None else {"step": step, **metrics})


def report_all(metrics: dict[str, object]) -> bool:
    """The same, for names that are no keywords."""
    path = os.environ.get(VARIABLE)
    if not path:
        return False
    try:
        return _append(path, _lines(metrics))
    except Exception:  # Whatever the values do when they are asked for a number.
        return False


def _lines(metrics: dict[str, object]) -> list[bytes]:
    import json
    import time

    numbers: dict[str, float] = {}
    for name, value in metrics.items():
        try:
            number = float(value)  # type: ignore[arg-type]
        except Exception:  # Its own code was run, which may raise anything.
            _left_out(f"{name[:_MOST_NAME]} ({type(value).__name__} is no number)")
            continue
        if 0 < len(name) <= _MOST_NAME and name.isprintable():
            numbers[name] = number
        else:
            _left_out("a name that is empty, too long or not printable")
    about: dict[str, object] = {"at_ms": int(time.time() * 1000)}
    for name in ("step", "epoch"):
        if name in numbers:
            about[name] = numbers.pop(name)
    if not numbers:
        return []
    line = json.dumps({**about, "metrics": numbers}).encode() + b"\n"
    if len(line) <= MOST_LINE_BYTES:
        return [line]
    each = ({**about, "metrics": {name: number}} for name, number in numbers.items())
    return [json.dumps(one).encode() + b"\n" for one in each]


def _left_out(what: str) -> None:
    """Tell once what is left out of reports: a training may make a million of them."""
    global _is_told
    if _is_told or not os.environ.get(VARIABLE):
        return
    _is_told = True
    try:
        said = ascii(what)[1:-1]
        print(f"stoker.report: {said} is left out, and so will be others", file=sys.stderr)
    except Exception:  # It may be closed, or be something else by now.
        pass


def _append(path: str, lines: list[bytes]) -> bool:
    if not lines:
        return False
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    fd = os.open(path, flags, 0o600)
    try:
        if os.fstat(fd).st_size > MOST_FILE_BYTES:
            return False
        return all(os.write(fd, line) == len(line) for line in lines)
    finally:
        os.close(fd)
