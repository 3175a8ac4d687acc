"""What became of an attempt at the cluster: each combination of what is found has a meaning.

The files of the attempt are the truth; Slurm's word says why, or stands in where they are silent.

| `exit` | Slurm says            | meaning                                                       |
|--------|-----------------------|---------------------------------------------------------------|
| yes    | (not asked)           | it ended so, if it was not told to end and no signal did it   |
| yes    | TIMEOUT, CANCELLED, … | it was told to end, and this is why                           |
| yes    | nothing at all        | it was told to end, and the cluster has lost its record       |
| no     | it is over            | after a while for the files to appear: as Slurm says          |
| no     | it waits, but began   | the cluster took it back: tried again, as another attempt     |
| no     | it runs, never began  | after a while: its node never launched it: tried again        |
| no     | nothing, it began     | after a long while: it is not known                           |
| no     | nothing, never began  | the cluster lost it: tried again, once no start is possible   |
| either | CANCELLED, doubtful   | perhaps for another's sake: tried again, unless it ended so   |
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core import events as ev
from stoker.core.model import Cause, Exit
from stoker.executors.slurm.files import Started
from stoker.executors.slurm.squeue import Seen

Key = tuple[int, int]

_COULD_NOT_BEGIN = (Exit(code=126), Exit(code=127), Exit(code=78))
_HOPELESS = ("launch failed", "launch_failed", "launchfailed")


@dataclass(frozen=True, slots=True)
class Found:
    """What the files of an attempt say."""

    exit: Exit | None = None
    ended_at_ms: int | None = None
    started: Started | None = None
    refusal: tuple[str, str] | None = None
    told_to_stop: bool = False
    took_too_much_memory: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """What Slurm says, and how far that can be relied on."""

    seen: Seen | None
    since_the_start: bool = False  # it was asked after the start was noticed
    conclusive: bool = False  # it has said so for long enough for the files to be there
    missing: bool = False  # it has answered for long enough without naming it
    overdue: bool = False  # it has said for long enough that it runs for it to have begun
    doubtful: bool = False  # it may end it for another's sake: see Watcher.counts_back


def ending(key: Key, now_ms: int, found: Found, heard: Heard, stopping: bool) -> ev.Fact | None:
    """The fact by which the attempt is over; None while it is not."""
    match _ending(key, now_ms, found, heard, stopping):
        case ev.AttemptCutShort(at_ms, cause=Cause.CANCELLED) if heard.doubtful and not stopping:
            # Perhaps no user has called it off, and what is run once too often does less harm.
            why = "the cluster ended it, perhaps for another job that had its id before"
            return _again(key, at_ms, why)
        case fact:
            return fact


def _again(key: Key, at_ms: int, why: str) -> ev.AttemptEvicted:
    return ev.AttemptEvicted(at_ms, *key, Cause.REQUEUED, why)


def _ending(key: Key, now_ms: int, found: Found, heard: Heard, stopping: bool) -> ev.Fact | None:
    seen = heard.seen
    began = found.started is not None and not found.started.withdrawn
    if found.exit is not None:
        return _after_exit(key, min(found.ended_at_ms or now_ms, now_ms), found, heard, stopping)
    if found.refusal is not None:
        kind, why = found.refusal
        if kind == "requirement":
            why = "the cluster started it before what it requires had succeeded"
            return _again(key, now_ms, why)
        return ev.AttemptNotStarted(now_ms, *key, why)
    if seen is None:
        if not heard.missing:
            return None
        if began:
            why = "the cluster knows nothing of it any more, and it left no exit code"
            return ev.AttemptVanished(now_ms, *key, why)
        return _again(key, now_ms, "the cluster lost it")
    if seen.live and found.started is not None and found.started.withdrawn and not stopping:
        # An earlier daemon had given it up, and was killed before that was on record.
        return _again(key, now_ms, "it was withdrawn from the cluster")
    if seen.live:
        return _taken_back(key, now_ms, found, heard)
    if not heard.conclusive:
        return None
    if began:
        return _by_state(key, now_ms, seen, seen.exit, found.took_too_much_memory)
    return _never_began(key, now_ms, seen)


def _after_exit(key: Key, at_ms: int, found: Found, heard: Heard, stopping: bool) -> ev.Fact | None:
    """Its exit is known; whether it was the job's own or the cluster's doing may still be open."""
    how, seen = found.exit, heard.seen
    assert how is not None
    if stopping or not (found.told_to_stop or may_be_a_signal(how)):
        return ev.AttemptExited(at_ms, *key, how)
    if seen is None:
        if not heard.missing:
            return None
        if found.told_to_stop:
            return _again(key, at_ms, "the cluster ended it, and has lost its record")
        return ev.AttemptExited(at_ms, *key, how)
    if not seen.live:
        return _by_state(key, at_ms, seen, how, found.took_too_much_memory)
    if seen.state == "PENDING":
        return _taken_back(key, at_ms, found, heard)
    return ev.AttemptExited(at_ms, *key, how) if heard.conclusive else None


def may_be_a_signal(how: Exit) -> bool:
    """The job may have died of the cluster's signal before its wrapper had heard of it.

    A shell says of a child that was ended by a signal that its exit code is above 128.
    """
    return how.signal is not None or (how.code or 0) > 128


def _taken_back(key: Key, at_ms: int, found: Found, heard: Heard) -> ev.Fact | None:
    """Slurm lets it wait although it began, or will never start it by itself."""
    seen, started = heard.seen, found.started
    assert seen is not None
    if seen.state != "PENDING":
        if started is None and heard.overdue:
            why = f"the cluster says that it runs, but it never began ({seen.node})"
            return _again(key, at_ms, why)
        return None
    if started is None:
        if any(words in seen.reason.lower() for words in _HOPELESS):
            return _again(key, at_ms, f"the cluster could not start it ({seen.reason})")
        return None
    if seen.id == started.slurm_id and (seen.restarts > started.restarts or heard.since_the_start):
        return _again(key, at_ms, "the cluster took it back")
    return None


def _by_state(
    key: Key, at_ms: int, seen: Seen, how: Exit | None, too_much_memory: bool = False
) -> ev.Fact:
    # Without cgroups Slurm calls it a failure like any other, and says why only in the log.
    match "OUT_OF_MEMORY" if too_much_memory and seen.state == "FAILED" else seen.state:
        case "TIMEOUT":
            return ev.AttemptCutShort(at_ms, *key, Cause.TIME_LIMIT, how)
        case "OUT_OF_MEMORY":
            return ev.AttemptCutShort(at_ms, *key, Cause.NODE_MEMORY, how)
        case "PREEMPTED":
            return ev.AttemptEvicted(at_ms, *key, Cause.PREEMPTED, _at("preempted", seen))
        case "NODE_FAIL" | "BOOT_FAIL":
            return ev.AttemptEvicted(at_ms, *key, Cause.NODE_FAILED, _at("the node failed", seen))
        case "CANCELLED":
            why = "called off at the cluster"
            return ev.AttemptCutShort(at_ms, *key, Cause.CANCELLED, how, why)
        case "DEADLINE":
            why = "the deadline that it had at the cluster"
            return ev.AttemptCutShort(at_ms, *key, Cause.CLUSTER, how, why)
    if how is None:
        why = f"the cluster says {seen.state}, and it left no exit code"
        return ev.AttemptVanished(at_ms, *key, why)
    return ev.AttemptExited(at_ms, *key, how)


def _never_began(key: Key, at_ms: int, seen: Seen) -> ev.Fact:
    if seen.state == "CANCELLED" and "dependency" in seen.reason.lower():
        return _again(key, at_ms, "what it waited for did not succeed at the cluster")
    if seen.state == "CANCELLED" and seen.node:
        # Its node would not launch it, as happens if the id was another job's there; a job that
        # waits is called off before it has a node.
        return _again(key, at_ms, f"the cluster ended it before it began ({seen.node})")
    if seen.state == "FAILED" and (
        seen.reason not in ("NonZeroExitCode", "None", "") or seen.exit in _COULD_NOT_BEGIN
    ):
        # The script of a batch begins with the program that is to run it.
        hint = "; is perl on its nodes?" if seen.exit == Exit(code=127) else ""
        why = f"the cluster could not start it ({seen.reason or seen.state}{hint})"
        return ev.AttemptNotStarted(at_ms, *key, why)
    if seen.state in ("COMPLETED", "FAILED"):
        # After a crash of its controller, Slurm may take the end of one job for that of another
        # which was given the same id.
        return _again(key, at_ms, "the cluster says that it has ended, but it never began")
    return _by_state(key, at_ms, seen, None)


def _at(words: str, seen: Seen) -> str:
    return f"{words} ({seen.node})" if seen.node else words
