"""What Slurm says of its jobs, read from the text of its commands by pure functions.

The shapes differ from version to version: a number may be `7` or `{"set": true, "number": 7}`, a
state `"RUNNING"` or `["RUNNING", "COMPLETING"]`, an exit code the raw wait status or an object. So
fields are read defensively, and what can't be read is left unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from stoker.core.model import Exit

FIELDS = (
    "ArrayJobID", "JobID", "ArrayTaskID", "State", "exit_code", "RestartCnt", "NodeList",
    "Name", "Comment", "Reason",
)  # fmt: skip
TEXT_FORMAT = ",".join(f"{field}:|" for field in FIELDS)
"""For `squeue -O`, where there is no JSON; the reason may have any text in it, so it is last."""

FINAL = frozenset(
    {
        "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL",
        "DEADLINE", "OUT_OF_MEMORY",
    }
)  # fmt: skip
"""How a job may have ended; a word that is not known is no end."""
# Flags that newer versions list beside the state proper, and older ones say instead of it.
_FLAGS = (
    "LAUNCH_FAILED", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED", "RESV_DEL_HOLD",
    "POWER_UP_NODE", "RECONFIG_FAIL", "UPDATE_DB", "REVOKED", "RESIZING", "CONFIGURING",
    "STAGE_OUT", "SIGNALING", "STOPPED",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """One job (or one task of an array) as Slurm has it."""

    id: str  # "812", or "812_3" for a task
    array_id: int  # by which all tasks of an array are known; a job's own id otherwise
    index: int | None
    state: str  # e.g. PENDING, RUNNING, COMPLETED, TIMEOUT
    reason: str
    exit: Exit | None
    restarts: int
    node: str
    name: str
    comment: str
    number: int = 0  # among all jobs of the cluster; a task has one of its own once it starts

    @property
    def live(self) -> bool:
        """True if it has not ended, as far as Slurm knows."""
        return self.state not in FINAL


class Unreadable(Exception):
    """The text is not what it should be."""


class NoAnswer(Exception):
    """The controller was not reached: that no jobs are named means nothing."""


class _Job(msgspec.Struct):
    """The fields that are looked at; all others are skipped while decoding."""

    job_id: Any = None
    array_job_id: Any = None
    array_task_id: Any = None
    array_task_string: Any = None
    job_state: Any = None
    state_reason: Any = None
    exit_code: Any = None
    restart_cnt: Any = None
    nodes: Any = None
    name: Any = None
    comment: Any = None


class _Answer(msgspec.Struct):
    jobs: list[_Job]
    errors: list[Any] = []


_decoder = msgspec.json.Decoder(_Answer)


def jobs_from_json(body: bytes, prefix: str) -> list[Seen]:
    """The jobs of `squeue --json` whose comment begins with `prefix`."""
    try:
        answer = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise Unreadable(str(error)) from None
    if answer.errors:
        # With JSON the command says that all is well even if it could not ask the controller.
        raise NoAnswer(_text(_first_text(answer.errors[0])))
    found: list[Seen] = []
    for job in answer.jobs:
        comment = _text(job.comment)
        if not comment.startswith(prefix):
            continue
        own_id = _number(job.job_id) or 0
        array_id = _number(job.array_job_id) or 0
        seen = Seen(
            str(own_id),
            array_id or own_id,
            _number(job.array_task_id) if array_id else None,
            _state(job.job_state),
            _text(job.state_reason),
            _exit(job.exit_code),
            _number(job.restart_cnt) or 0,
            _text(job.nodes),
            _text(job.name),
            comment,
            own_id,
        )
        found += _tasks(seen, _text(job.array_task_string) if array_id else "")
    return found


def jobs_from_text(body: bytes, prefix: str) -> list[Seen]:
    """The jobs of `squeue --noheader -O` with TEXT_FORMAT, in the same way."""
    found: list[Seen] = []
    for line in body.decode(errors="replace").splitlines():
        parts = [part.strip() for part in line.split("|", len(FIELDS) - 1)]
        if len(parts) != len(FIELDS):
            raise Unreadable(f"{len(parts)} fields in {line[:200]!r}")
        array, own, task, state, code, restarts, node, name, comment, reason = parts
        if not comment.startswith(prefix):
            continue
        array_id, own_id = int(array or 0), int(own or 0)
        is_task = task.isdecimal()
        is_array = is_task or (task not in ("", "N/A"))
        seen = Seen(
            own,
            array_id or own_id,
            int(task) if is_task else None,
            _state(state),
            reason.rstrip("|"),
            _exit(int(code)) if code.isdecimal() else exit_of_pair(code),
            int(restarts) if restarts.isdecimal() else 0,
            "" if node == "(null)" else node,
            name,
            comment,
            own_id,
        )
        found += _tasks(seen, task if is_array and not is_task else "")
    return found


def _tasks(seen: Seen, pending: str) -> list[Seen]:
    """A job as it is, a task under its own id, or the tasks that wait under one entry."""
    if seen.index is not None:
        return [replace(seen, id=f"{seen.array_id}_{seen.index}")]
    if not pending:
        return [seen]
    return [
        replace(seen, id=f"{seen.array_id}_{index}", index=index)
        for index in array_indexes(pending)
    ]


def array_indexes(text: str) -> list[int]:
    """The indexes that `0-3,7,10-20:5%4` names; what was cut off by `...` is not known."""
    found: list[int] = []
    for part in text.strip("[]").partition("%")[0].split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part.strip())
        if match is not None:
            first, last, step = match.groups()
            found += range(int(first), int(last or first) + 1, int(step or 1))
    return found


def indexes_text(indexes: list[int]) -> str:
    """Indexes as Slurm's commands take them: `0-3,7`."""
    parts: list[str] = []
    ordered = sorted(set(indexes))
    start = 0
    for place, index in enumerate(ordered):
        if place + 1 == len(ordered) or ordered[place + 1] != index + 1:
            first = ordered[start]
            parts.append(str(first) if first == index else f"{first}-{index}")
            start = place + 1
    return ",".join(parts)


def submitted_id(text: str) -> int | None:
    """The id that `sbatch --parsable` prints: `812`, or `812;cluster`."""
    lines = text.strip().splitlines()
    word = lines[-1].partition(";")[0].strip() if lines else ""
    return int(word) if word.isdecimal() else None


def exit_of_pair(text: str) -> Exit | None:
    """From `3:0`, an exit code, or `0:9`, a signal."""
    code, _, number = text.partition(":")
    if not (code.isdecimal() and number.isdecimal()):
        return None
    return Exit(signal=int(number)) if int(number) else Exit(code=int(code))


# ---------------------------------------------------------------------- shapes


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return int(value)
    if isinstance(value, str):
        return int(value) if value.isdecimal() else None
    if isinstance(value, dict) and value.get("set", True) and not value.get("infinite"):
        return _number(value.get("number"))
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _first_text(error: Any) -> Any:
    if isinstance(error, dict):
        return error.get("error") or error.get("description") or str(error)
    return str(error)


def _state(value: Any) -> str:
    words = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    states = [word.upper() for word in words if isinstance(word, str)]
    proper = [state for state in states if state not in _FLAGS]
    if "COMPLETING" in proper and len(proper) > 1:
        # It is over, and its node is being cleaned up: the other word says how.
        proper.remove("COMPLETING")
    chosen = (proper or states or ["UNKNOWN"])[0]
    # In older versions a job that was taken back says so instead of what it does now.
    return "PENDING" if chosen in ("REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT") else chosen


def _exit(value: Any) -> Exit | None:
    """From the raw wait status, or from `{"return_code": …, "signal": {"id": …}}`."""
    if isinstance(value, dict):
        signal = value.get("signal")
        number = (
            _number(signal.get("id", signal.get("signal_id"))) if isinstance(signal, dict) else 0
        )
        if number:
            return Exit(signal=number)
        code = _number(value.get("return_code"))
        return None if code is None else Exit(code=code)
    status = _number(value)
    if status is None or status < 0 or status > 0xFFFF:
        return None
    return Exit(signal=status & 0x7F) if status & 0x7F else Exit(code=status >> 8)
