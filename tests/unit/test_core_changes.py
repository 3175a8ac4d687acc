"""Whatever changes is named to the store: the record is as memory is after every kind of event."""

from __future__ import annotations

from typing import get_args

import pytest

from stoker.api.messages import JobOwn
from stoker.core import events as ev
from stoker.core.gpu import GpuReading
from stoker.core.model import (
    Cause,
    Exit,
    JobState,
    Launch,
    Memory,
    Need,
    Profile,
    Requirement,
    Takeovers,
    Terms,
)
from stoker.core.order import Policy
from stoker.core.state import State
from stoker.sim.fingerprint import of_state
from stoker.store.memory import MemoryStore
from unit.core_scene import with_terminals

NOW = 1_700_000_000_000

LIMITED = Terms(time_limit_ms=60_000, signal=10, signal_before_ms=30_000, retries=1)


class Recorded:
    """A state of which each event is committed by itself."""

    def __init__(self) -> None:
        self.state = State(NOW)
        self.store = MemoryStore()

    def apply(self, *events: ev.Event) -> None:
        for event in events:
            self.state.apply(event)
            self.store.commit(self.state, self.state.take_change())

    def agrees(self) -> bool:
        loaded = with_terminals(self.store.load(self.state.now_ms), self.state)
        return of_state(loaded) == of_state(self.state)


def submitted(job_id: int, *, held: bool = False, after: int | None = None) -> ev.JobSubmitted:
    requires = () if after is None else (Requirement(after, True),)
    return ev.JobSubmitted(NOW, job_id, Need(), LIMITED, 0, "a", None, requires, held)


TOGETHER = ev.JobsSubmitted(
    NOW, 2, Need(), LIMITED, "b", (3, -1), Launch(("true",)), (JobOwn(), JobOwn()), ("", "")
)
GPU = ev.GpuAdded(NOW, "0", 1024)
PLACED = (GPU, submitted(1), ev.AttemptPlaced(NOW, 1, 1, ("0",)))
STARTED = (*PLACED, ev.AttemptStarted(NOW, 1, 1, 4711))
SUSPENDED = (*STARTED, ev.SuspendRequested(NOW, 1, 1))
STOPPED = (*STARTED, ev.StopRequested(NOW, 1, 1, Cause.TIME_LIMIT))
ON_CLUSTER = Terms(retries=1, executor="slurm")
HANDED_OVER = (
    ev.JobSubmitted(NOW, 1, Need(2), ON_CLUSTER, 0, "a"),
    ev.AttemptPlaced(NOW, 1, 1, ()),
)
ACCEPTED = (*HANDED_OVER, ev.AttemptAccepted(NOW, 1, 1, "77_3"))
AT_CLUSTER = (*ACCEPTED, ev.AttemptStarted(NOW, 1, 1, None, "77_3 n1"))
CANCELLED = (submitted(1), ev.JobCancelled(NOW, 1))
ATTACHED = (
    ev.JobSubmitted(NOW, 1, Need(), Terms(attached=True), held=True),
    ev.TerminalCame(NOW, 1),
)
PROFILE = Profile("train", 3, 700, 650.5, 12.25, 2_000, 40, 1, NOW)
# A job whose memory is learned, beside another GPU that is larger.
AUTO = (
    GPU,
    ev.GpuAdded(NOW, "1", 4096),
    ev.JobSubmitted(NOW, 1, Need(kind="train"), Terms()),
    ev.AttemptPlaced(NOW, 1, 1, ("0",)),
    ev.AttemptStarted(NOW, 1, 1, 4711),
)
SETTLED = ev.MemorySeen(NOW, 1, 1, 700, False, True)

# What happens first, and then the event in question.
PROCESS = "4711 98765 boot python train.py"
FOR_PROCESS = ev.JobSubmitted(
    NOW, 1, Need(), Terms(), requires=(Requirement(0, False, None, PROCESS),)
)
HISTORIES: list[tuple[tuple[ev.Event, ...], ev.Event]] = [
    ((), submitted(1)),
    ((), submitted(1, held=True)),
    ((submitted(1),), submitted(2, after=1)),
    ((submitted(1),), TOGETHER),
    ((submitted(1),), ev.SubmissionTaken(NOW, "token", (1,))),
    ((submitted(1),), ev.JobHeld(NOW, 1)),
    ((submitted(1, held=True),), ev.JobReleased(NOW, 1)),
    ((submitted(1),), ev.JobEdited(NOW, 1, Need(2), Terms(), -3, "b", NOW + 5)),
    (CANCELLED, ev.JobRetried(NOW, 1, Need(2), Terms(), 4, "b", (), 0, 3)),
    ((submitted(1),), ev.JobCancelled(NOW, 1)),
    ((submitted(1),), ev.RoomKept(NOW, 1, ("0",))),
    ((submitted(1), ev.RoomKept(NOW, 1, ("0",))), ev.RoomKept(NOW, 1, ())),
    ((submitted(1), ev.RoomKept(NOW, 1, ("0",))), ev.JobHeld(NOW, 1)),
    ((submitted(1), submitted(2, after=1)), ev.JobSkipped(NOW, 2, 1, JobState.FAILED)),
    (CANCELLED, ev.JobsRemoved(NOW, (1,))),
    ((GPU, submitted(1)), ev.AttemptPlaced(NOW, 1, 1, ("0",))),
    ((*PLACED, submitted(2)), ev.TakeoversPlanned(NOW, Takeovers((1,), (2,)))),
    (PLACED, ev.AttemptStarted(NOW, 1, 1, 4711)),
    (PLACED, ev.AttemptNotStarted(NOW, 1, 1, "no such command")),
    (PLACED, ev.AttemptPutBack(NOW, 1, 1, "no more processes")),
    (PLACED, ev.AttemptPutBack(NOW, 1, 1, "no more processes", spent=True)),
    (PLACED, ev.AttemptPutBack(NOW, 1, 1, "no space left", alone=True)),
    (STARTED, ev.AttemptExited(NOW, 1, 1, Exit(code=0))),
    (STARTED, ev.AttemptExited(NOW, 1, 1, Exit(code=1))),
    (STARTED, ev.AttemptExited(NOW, 1, 1, Exit(code=1), mps_fault=True)),
    ((*STARTED, submitted(2, after=1)), ev.AttemptExited(NOW, 1, 1, Exit(code=0))),
    ((*STARTED, ev.GpuRemoved(NOW, "0")), ev.AttemptExited(NOW, 1, 1, Exit(code=0))),
    (HANDED_OVER[:1], HANDED_OVER[1]),
    (HANDED_OVER, ACCEPTED[-1]),
    (
        (
            *HANDED_OVER,
            ev.JobSubmitted(NOW, 2, Need(), ON_CLUSTER, requires=(Requirement(1, True),)),
        ),
        ACCEPTED[-1],
    ),
    (ACCEPTED, AT_CLUSTER[-1]),
    (ACCEPTED, ev.AttemptEvicted(NOW, 1, 1, Cause.REQUEUED, "lost")),
    (AT_CLUSTER, ev.AttemptEvicted(NOW, 1, 1, Cause.NODE_FAILED, "node n1 failed")),
    (AT_CLUSTER, ev.AttemptCutShort(NOW, 1, 1, Cause.TIME_LIMIT, None)),
    ((), ev.ClusterLimited(NOW, 7)),
    (ATTACHED[:1], ATTACHED[1]),
    (ATTACHED, ev.TerminalLeft(NOW, 1)),
    ((FOR_PROCESS,), ev.ProcessEnded(NOW, PROCESS)),
    ((FOR_PROCESS, submitted(2)), ev.JobCancelled(NOW, 1)),
    (ATTACHED, ev.JobCancelled(NOW, 1)),
    (ATTACHED[:1], ev.JobReleased(NOW, 1)),
    (
        (GPU, *ATTACHED, ev.JobReleased(NOW, 1), ev.AttemptPlaced(NOW, 1, 1, ("0",))),
        ev.AttemptEvicted(NOW, 1, 1, Cause.REQUEUED, "the daemon was restarted"),
    ),
    (STARTED, ev.AttemptVanished(NOW, 1, 1, "power cut")),
    (STARTED, ev.StopRequested(NOW, 1, 1, Cause.CANCELLED)),
    (STARTED, ev.StopRequested(NOW, 1, 1, Cause.STOPPED_EARLY, "at step 9: loss 0.81 (asha)")),
    (STOPPED, ev.StopRequested(NOW, 1, 1, Cause.CANCELLED)),
    (STARTED, ev.StopRequested(NOW, 1, 1, Cause.GAVE_WAY, "7")),
    (
        (*STARTED, ev.StopRequested(NOW, 1, 1, Cause.GAVE_WAY, "7")),
        ev.AttemptExited(NOW, 1, 1, Exit(signal=15)),
    ),
    (
        (
            *STARTED,
            ev.StopRequested(NOW, 1, 1, Cause.GAVE_WAY, "7"),
            ev.AttemptExited(NOW, 1, 1, Exit(signal=15)),
        ),
        ev.ClockShifted(NOW - 1000, -1000),
    ),
    (STARTED, ev.WorkSaved(NOW, 1, 1, NOW - 5)),
    (STARTED, ev.WarningDue(NOW, 1, 1)),
    ((*STARTED, ev.WarningDue(NOW, 1, 1)), ev.WarningSent(NOW, 1, 1)),
    ((*STARTED, ev.WarningDue(NOW, 1, 1)), ev.StopRequested(NOW, 1, 1, Cause.CANCELLED)),
    (STARTED, ev.SuspendRequested(NOW, 1, 1)),
    (SUSPENDED, ev.AttemptSuspended(NOW, 1, 1, 1)),
    (SUSPENDED, ev.ContinueRequested(NOW + 5, 1, 1)),
    ((*SUSPENDED, ev.ContinueRequested(NOW, 1, 1)), ev.AttemptContinued(NOW, 1, 1, 1)),
    (SUSPENDED, ev.StopRequested(NOW + 5, 1, 1, Cause.CANCELLED)),
    (SUSPENDED, ev.AttemptExited(NOW + 5, 1, 1, Exit(code=0))),
    ((), ev.QueuePaused(NOW)),
    ((), ev.QueuePaused(NOW, "a")),
    ((ev.QueuePaused(NOW),), ev.QueueResumed(NOW)),
    ((ev.QueuePaused(NOW, "a"),), ev.QueueResumed(NOW, "a")),
    ((), ev.PolicySet(NOW, Policy.FAIR)),
    ((), ev.GroupLimited(NOW, "a", 2)),
    ((ev.GroupLimited(NOW, "a", 2),), ev.GroupLimited(NOW, "a", None)),
    ((), ev.GpuAdded(NOW, "1", 2048)),
    ((GPU,), ev.GpuAdded(NOW, "0", 4096)),
    ((GPU,), ev.GpuRemoved(NOW, "0")),
    (STARTED, ev.GpuRemoved(NOW, "0")),
    ((*STARTED, ev.GpuRemoved(NOW, "0")), ev.GpuAdded(NOW, "0", 1024)),
    ((GPU,), ev.GpuDrained(NOW, "0")),
    ((GPU, ev.GpuDrained(NOW, "0")), ev.GpuResumed(NOW, "0")),
    ((), ev.DiskLooked(NOW, None)),
    ((GPU,), ev.GpusMeasured(NOW, {"0": GpuReading(NOW, 100, {}, 1, 100)})),
    (
        (),
        ev.GpuAdded(NOW, "GPU-1", 2048, label="1", vendor="nvidia"),
    ),
    (
        (ev.GpuAdded(NOW, "GPU-1", 2048, label="1", vendor="nvidia"),),
        ev.GpuRemoved(NOW, "GPU-1"),
    ),
    (AUTO, ev.MemorySeen(NOW, 1, 1, 700, True, False)),
    (AUTO, ev.MemorySeen(NOW, 1, 1, 700, False, True)),
    (AUTO, ev.ReservationChanged(NOW, 1, 1, Memory(800))),
    (AUTO, ev.AttemptExited(NOW, 1, 1, Exit(code=1), out_of_memory=True)),
    ((*AUTO, SETTLED), ev.AttemptExited(NOW, 1, 1, Exit(code=0))),
    ((), ev.ProfileLearned(NOW, PROFILE)),
    ((ev.ProfileLearned(NOW, PROFILE),), ev.ProfilesForgotten(NOW, ("train",))),
    ((), ev.CpusCounted(NOW, 7)),
    ((), ev.PolicySet(NOW, Policy.FAIR)),
    (STARTED, ev.ClockShifted(NOW + 1000, 1000)),
    (STOPPED, ev.ClockShifted(NOW - 1000, -1000)),
    (
        (*STARTED, ev.AttemptExited(NOW, 1, 1, Exit(code=1))),
        ev.ClockShifted(NOW - 1000, -1000),
    ),
    (STARTED, ev.TimePassed(NOW + 5)),
]


def name_of(history: object) -> str:
    return type(history).__name__ if not isinstance(history, tuple) else f"after {len(history)}"


@pytest.mark.parametrize(("before", "event"), HISTORIES, ids=name_of)
def test_the_record_is_as_memory_is_after(before: tuple[ev.Event, ...], event: ev.Event) -> None:
    recorded = Recorded()
    recorded.apply(*before)
    assert recorded.agrees()
    recorded.apply(event)
    assert recorded.agrees()


def test_a_history_is_known_for_every_kind_of_event() -> None:
    assert {type(event) for _, event in HISTORIES} == set(get_args(ev.Event))


def is_fleeting(event: ev.Event) -> bool:
    """Readings are taken again soon, and clients come back: they are in no record."""
    growing = isinstance(event, ev.MemorySeen) and not event.settled
    of_terminals = isinstance(event, (ev.TerminalCame, ev.TerminalLeft))
    return (
        growing
        or of_terminals
        or isinstance(event, (ev.TimePassed, ev.GpusMeasured, ev.DiskLooked, ev.WorkSaved))
    )


def test_nothing_that_happens_goes_unnoticed() -> None:
    """Only the passing of time, and a clock that is set while nothing goes on, change nothing."""
    for before, event in HISTORIES:
        recorded = Recorded()
        recorded.apply(*before)
        recorded.state.apply(event)
        assert bool(recorded.state.take_change()) != is_fleeting(event), event


def test_a_submission_is_recorded_with_its_token() -> None:
    state = State(NOW)
    state.apply(ev.SubmissionTaken(NOW, "token", (1, 2)))
    assert state.take_change().submissions == [ev.SubmissionTaken(NOW, "token", (1, 2))]


@pytest.mark.parametrize(
    ("events", "ended_as"),
    [
        # All of it in one turn, so that the store gets to know of it in one change.
        ((submitted(1), ev.JobCancelled(NOW, 1)), JobState.CANCELLED),
        (
            (
                submitted(1),
                ev.JobCancelled(NOW, 1),
                ev.JobRetried(NOW, 1, Need(), Terms(), 0, None, (), 0),
            ),
            None,
        ),
        ((*STARTED, ev.AttemptExited(NOW, 1, 1, Exit(code=0))), JobState.SUCCEEDED),
        ((*STARTED, ev.AttemptExited(NOW, 1, 1, Exit(code=1))), None),
        (
            (
                submitted(1),
                ev.JobCancelled(NOW, 1),
                ev.JobRetried(NOW, 1, Need(), Terms(), 0, None, (), 0),
                ev.JobCancelled(NOW, 1),
            ),
            JobState.CANCELLED,
        ),
    ],
)
def test_several_events_of_one_turn_are_recorded_as_one(
    events: tuple[ev.Event, ...], ended_as: JobState | None
) -> None:
    recorded = Recorded()
    for event in events:
        recorded.state.apply(event)
    recorded.store.commit(recorded.state, recorded.state.take_change())
    assert recorded.agrees()
    outcome = recorded.store.outcomes.get(1)
    assert (None if outcome is None else outcome.state) == ended_as
