"""One turn: take facts and proposals in, apply, plan, commit, carry out.

The daemon, the simulator and the tests drive this very code. Nothing is done outside before the
decision is committed, and what is to be done outside is derived from the state each time, so a
crash at any point loses no order. There is one exception: what is to stop is stopped even if that
can't be committed (see `core.unsaved`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from stoker.core import events as ev
from stoker.core.change import Change
from stoker.core.commands import Command, Continue, Terminate, commands_for
from stoker.core.giving_way import giving_way, next_offer_ms, offering
from stoker.core.learning import Habits, consequences, gpus_were_full
from stoker.core.model import Job
from stoker.core.plan import Scan
from stoker.core.slices import slices_over
from stoker.core.state import State
from stoker.core.takeover import NO_TAKEOVERS, AllowTakeovers, allowed, planned
from stoker.core.unsaved import Ending, UnsavedStops, is_easing, is_ending
from stoker.errors import StokerError, Unavailable
from stoker.ports import Clock, Executor, Inventory, Sighting, Store, StoreFailed, Takeover
from stoker.sightings import differences, readings

_WAIT_FOR_READING_MS = 2_000
_JUDGE_AGAIN_MS = 50
_MayPutBack = ev.AttemptExited | ev.AttemptCutShort | ev.AttemptVanished
_MAY_PUT_BACK = (ev.AttemptExited, ev.AttemptCutShort, ev.AttemptVanished)
_GOES_ON = (  # The attempt is not over.
    ev.AttemptAccepted, ev.AttemptStarted, ev.WarningSent, ev.AttemptSuspended,
    ev.AttemptContinued,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Decided:
    """The events that grant a proposal, and the answer once they are committed."""

    events: Sequence[ev.Event]
    answer: Any = None


Proposal = Callable[[State], Decided]
"""Looks at the state and says which events grant it, or raises StokerError."""


@dataclass(slots=True)
class Answer:
    """What became of a proposal: `error` or `value`, and what its user should know besides."""

    value: Any = None
    error: StokerError | None = None
    note: str = ""


@dataclass(slots=True)
class _Tried:
    """What a pass has come to by the time of its commit, in case that fails."""

    answers: list[Answer] = field(default_factory=list)
    granted: list[Sequence[ev.Event]] = field(default_factory=list)  # to each proposal
    due: Sequence[ev.Event] = ()
    a_stop_is_over: bool = False
    commands: Sequence[Command] = ()

    def easing(self) -> list[int]:
        """The proposals that stop or remove something, by their number."""
        return [n for n, events in enumerate(self.granted) if any(map(is_easing, events))]

    def stops(self) -> list[Ending]:
        """What is to stop because a user wants it, or because its time has come."""
        events = chain(self.due, *self.granted)
        return [event for event in events if is_ending(event)]


class Engine:
    """Owns the state; everything that happens goes through `turn`."""

    def __init__(
        self,
        store: Store,
        executor: Executor,
        inventory: Inventory,
        clock: Clock,
        says_out_of_memory: Callable[[Job], bool] | None = None,
        takeover: Takeover | None = None,
        progressed: Callable[[Job], bool | None] | None = None,
        last_saved: Callable[[Sequence[Job]], Mapping[int, int] | None] | None = None,
    ) -> None:
        """`says_out_of_memory` looks at the output of a job that has failed.

        `progressed`: whether the attempt of a job has brought it further; None: not known yet.
        `last_saved`: when the attempts of these jobs last saved their work, by job; None: the same.
        """
        self._store = store
        self._executor = executor
        self._inventory = inventory
        self._clock = clock
        self._says_out_of_memory = says_out_of_memory
        self._takeover = takeover
        self._progressed = progressed
        self._last_saved = last_saved
        self._awaits_saves = False  # how much work would be lost is not known yet
        self.starts_nothing = False  # while the daemon drains
        self.committed = Change()  # what the last turn has changed
        self.failing = False  # the last turn could not be saved, or not as a whole
        self.saved = True  # something of it was, even if that was nothing
        self.unsaved = UnsavedStops()
        self.habits = Habits()
        self._seen: Sighting | None = None
        self._unlooked: set[tuple[int, int]] = set()  # ends for which it is not known if they have
        self.unjudged: dict[tuple[int, int], int] = {}  # since when failures wait for a reading
        reading = clock.read()
        # A shift is noticed once, and counts until what follows from it is committed: also one
        # from while no engine ran, or from while the disk was full.
        self._shift_ms = reading.shifted_ms
        self.state = store.load(reading.now_ms)
        jobs = self.state.jobs
        if takeover is not None:
            standbys = [jobs[i] for i in self.state.takeovers.standbys if i in jobs]
            takeover.adopt(standbys, reading.now_ms)
        executor.adopt([jobs[job_id] for job_id in self.state.active], reading.now_ms)

    def turn(self, proposals: Sequence[Proposal] = ()) -> list[Answer]:
        """One pass. Answers are true only because they are returned after the commit."""
        reading = self._clock.read()
        self._shift_ms += reading.shifted_ms
        self.unsaved.shift(reading.shifted_ms)
        tried = _Tried()
        try:
            return self._pass(reading.now_ms, proposals, tried)
        except StoreFailed as failure:
            error = Unavailable(
                f"the state can't be saved: {failure}",
                "nothing was changed; make room, then try again",
            )
        return self._ease(reading.now_ms, proposals, tried, error)

    def _pass(
        self, now_ms: int, proposals: Sequence[Proposal], tried: _Tried, *, starts: bool = True
    ) -> list[Answer]:
        facts = self._executor.observe(now_ms)
        try:
            if self._shift_ms:
                self.apply(ev.ClockShifted(now_ms, self._shift_ms))
            else:
                self.apply(ev.TimePassed(now_ms))
            self._look_around(self._inventory.observe())
            for stop in self.unsaved.stops(self.state):
                self.apply(stop)
            facts = self._take_in(facts, tried)
            for proposal in (*self.unsaved.stops(self.state), *self.unsaved.called_off(self.state)):
                self.apply(proposal)
            tried.answers = [self._grant(proposal, tried) for proposal in proposals]
            self._decide(tried, starts and not self.starts_nothing)
            tried.commands, change = commands_for(self.state), self.state.take_change()
            takeovers = allowed(self.state)
            if change:
                self._commit(change, takeovers, now_ms, proposals)
        except BaseException as error:
            # If it is not the disk it is a bug, found before anything was committed: memory is
            # worth nothing, disk is.
            self.failing, self.saved = isinstance(error, StoreFailed), False
            self.committed = Change()
            self._load(now_ms)
            raise
        self.failing, self.saved, self.committed = False, True, change
        self._shift_ms = 0
        self.unsaved.saved()
        self._executor.acknowledged(facts)
        self._carry_out(tried.commands, takeovers, now_ms)
        return tried.answers

    def _ease(
        self, now_ms: int, proposals: Sequence[Proposal], tried: _Tried, error: Unavailable
    ) -> list[Answer]:
        """The turn can't be saved: see to it that what fills the disk can be stopped or removed."""
        answers = [Answer(error=error) for _ in proposals]
        easing, stops = tried.easing(), tried.stops()
        granted = [(tried.answers[number], tried.granted[number]) for number in easing]
        if (easing or stops or tried.a_stop_is_over) and self._store.make_room():
            # That room is for these proposals, and not for others or for new processes.
            tried = _Tried()
            try:
                self._pass(now_ms, [proposals[n] for n in easing], tried, starts=False)
            except StoreFailed:
                pass
            else:
                self.failing = True  # The rest of the turn is still to be done.
                for number, answer in zip(easing, tried.answers, strict=True):
                    answers[number] = answer
                return answers
        self.unsaved.add(stops)
        for number, (answer, events) in zip(easing, granted, strict=True):
            if all(map(is_ending, events)):
                what = "it is" if len(events) == 1 else f"these {len(events)} jobs are"
                note = f"{what} being stopped, but that is not on record yet: {error.message}"
                answers[number] = replace(answer, note=note)
        if self.unsaved or self.state.stopping:
            # By the record, or by a proposal that is not on record yet. What follows from facts
            # that could not be committed is left out: they are judged anew.
            stopping = self.state.stopping.keys() | self.unsaved.job_ids()
            ending = [c for c in tried.commands if isinstance(c, (Terminate, Continue))]
            self._carry_out([c for c in ending if c.job_id in stopping], None, now_ms)
        return answers

    def next_wakeup_ms(self) -> int | None:
        """When the next turn is due although nothing is heard from outside."""
        executor_ms = self._executor.next_wakeup_ms()
        if (self.unjudged or self._unlooked) and executor_ms is not None:
            # It tells again what is not acknowledged; a reading will wake us, or this will.
            executor_ms = max(executor_ms, self.state.now_ms + _JUDGE_AGAIN_MS)
        timer_ms = self.state.next_timer_ms()
        if self.state.ready.urgent:
            again_ms = self.state.now_ms + _JUDGE_AGAIN_MS if self._awaits_saves else None
            moments = [timer_ms, again_ms, next_offer_ms(self.state)]
            timer_ms = min((ms for ms in moments if ms is not None), default=None)
        if timer_ms is None or executor_ms is None:
            return executor_ms if timer_ms is None else timer_ms
        return min(timer_ms, executor_ms)

    # ------------------------------------------------------------------ parts of a turn

    def _load(self, now_ms: int) -> None:
        terminals, low_disk = self.state.terminals, self.state.low_disk
        self.state = self._store.load(now_ms)
        for job_id in terminals:  # Who is at a terminal is in no store,
            if job_id in self.state.jobs:
                self.state.apply(ev.TerminalCame(now_ms, job_id))
        self.state.apply(ev.DiskLooked(now_ms, low_disk))  # nor is how full a disk is,
        self._seen = None  # nor is what was read.
        self.unjudged.clear()
        self._unlooked.clear()

    def apply(self, event: ev.Event) -> None:
        """Let one fact come true. A simulation looks on by a method of its own for this."""
        self.state.apply(event)

    def _take_in(self, facts: Sequence[ev.Fact], tried: _Tried) -> list[ev.Fact]:
        """Apply the facts, and say which: one or the other may have to wait for a reading."""
        taken, state = [], self.state
        for fact in in_order(facts):
            failed = isinstance(fact, ev.AttemptExited) and not fact.exit.ok
            if failed and self._must_wait(fact):
                continue
            job = state.jobs.get(fact.job_id)
            attempt = None if job is None else job.active
            told = fact
            if isinstance(fact, _MAY_PUT_BACK) and job is not None and job.terms.goes_on:
                looked = self._looked_at(fact, job)
                if looked is None:
                    continue
                fact = looked
            taken.append(told)
            if job is None or attempt is None or attempt.number != fact.attempt:
                continue  # It was committed before a crash, or is about an earlier attempt.
            if attempt.started_at_ms is not None and isinstance(fact, ev.AttemptStarted):
                continue
            # The clock may have been set since the fact was noted. Whatever its time says, it came
            # true after the attempt was placed, and not later than now.
            if not attempt.placed_at_ms <= fact.at_ms <= state.now_ms:
                at_ms = min(max(fact.at_ms, attempt.placed_at_ms), state.now_ms)
                fact = replace(fact, at_ms=at_ms)
            if attempt.stop is not None and not isinstance(fact, _GOES_ON):
                tried.a_stop_is_over = True
            if failed and attempt.gpus and isinstance(fact, ev.AttemptExited):
                fact = self._examined(fact, job)
            if isinstance(fact, ev.AttemptExited) and fact.taken_over_by is not None:
                # It has what the other had; and first, since a GPU that was taken away meanwhile is
                # gone with the last one on it.
                successor_id, number = fact.taken_over_by
                self.apply(ev.AttemptPlaced(fact.at_ms, successor_id, number, attempt.gpus))
            self.apply(fact)
        return taken

    def _must_wait(self, fact: ev.Fact) -> bool:
        """Whether a failure can't be judged yet: a reading may tell that its GPU was lost."""
        job = self.state.jobs.get(fact.job_id)
        attempt = None if job is None else job.active
        key, now_ms = (fact.job_id, fact.attempt), self.state.now_ms
        if attempt is None or attempt.number != fact.attempt or attempt.stop is not None:
            self.unjudged.pop(key, None)  # It was called off while it waited.
            return False
        measured = [self.state.gpus[i] for i in attempt.gpus if self.state.gpus[i].vendor]
        if not any(gpu.reading and gpu.reading.at_ms <= fact.at_ms for gpu in measured):
            self.unjudged.pop(key, None)
            return False
        if key not in self.unjudged:
            self.unjudged[key] = now_ms
            self._inventory.read_soon()
        if now_ms - self.unjudged[key] < _WAIT_FOR_READING_MS:
            return True
        del self.unjudged[key]  # The driver hangs; the job has failed whatever it would say.
        return False

    def _looked_at(self, fact: _MayPutBack, job: Job) -> _MayPutBack | None:
        """The end of an attempt with whether it has brought its job further; None: not yet.

        That is asked only where the job may be put back, and of a file system that may be slow.
        """
        key = (fact.job_id, fact.attempt)
        self._unlooked.discard(key)
        done = isinstance(fact, ev.AttemptExited) and fact.exit.ok
        if self._progressed is None or done or not self.state.is_current(*key):
            return fact
        progressed = self._progressed(job)
        if progressed is None:
            self._unlooked.add(key)
            return None
        return replace(fact, progressed=progressed)

    def _examined(self, fact: ev.AttemptExited, job: Job) -> ev.AttemptExited:
        assert job.active is not None
        readings = [self.state.gpus[gpu_id].reading for gpu_id in job.active.gpus]
        lost = any(reading is not None and reading.lost for reading in readings)
        full = not lost and gpus_were_full(self.state, job.active)
        says = self._says_out_of_memory
        ran_out = full or (not lost and says is not None and says(job))
        return replace(fact, gpu_lost=lost, out_of_memory=ran_out)

    def _look_around(self, sighting: Sighting) -> None:
        """Take in what an inventory sees, once for each time that it has looked."""
        if sighting is self._seen:
            return
        for event in differences(self.state, sighting):
            self.apply(event)
        self._seen = sighting
        pids = {process.pid for gpu in sighting.gpus or () for process in gpu.processes}
        owners = self._executor.owners(pids) if pids else {}
        measured = readings(self.state, sighting, owners)
        if measured:
            self.apply(ev.GpusMeasured(self.state.now_ms, measured))
            for event in consequences(self.state, self.habits):
                self.apply(event)

    def _grant(self, proposal: Proposal, tried: _Tried) -> Answer:
        try:
            decided = proposal(self.state)
        except StokerError as error:
            tried.granted.append(())
            return Answer(error=error)
        tried.granted.append(decided.events)
        for event in decided.events:
            self.apply(event)
        return Answer(value=decided.answer)

    def _decide(self, tried: _Tried, starts: bool) -> None:
        self._awaits_saves = False
        tried.due = self.state.take_due()
        for event in tried.due:
            self.apply(event)
        while skips := self.state.take_doomed():
            for event in skips:
                self.apply(event)
        if starts:
            Scan(self.state).carry_out(self.apply)
            if self.state.past_slice:
                for stop in slices_over(self.state):
                    self.apply(stop)
            if self.state.ready.urgent:
                self._let_urgent_in()
        takeovers = planned(self.state) if starts and self._takeover is not None else NO_TAKEOVERS
        if takeovers != self.state.takeovers:
            self.apply(ev.TakeoversPlanned(self.state.now_ms, takeovers))

    def _let_urgent_in(self) -> None:
        """Let others give way for urgent jobs, once it is known what work each would lose.

        That is asked only where one is about to be told to, and of a file system that may be slow.
        """
        state = self.state
        decided = giving_way(state)
        jobs = offering(state) if any(isinstance(e, ev.StopRequested) for e in decided) else ()
        if jobs and self._last_saved is not None:
            saved = self._last_saved(jobs)
            if saved is None:
                self._awaits_saves = True
                return
            for job in jobs:
                if job.id in saved:
                    saved_ms = min(saved[job.id], state.now_ms)
                    self.apply(ev.WorkSaved(state.now_ms, job.id, job.attempt, saved_ms))
            decided = giving_way(state)
        for event in decided:
            self.apply(event)

    def _commit(
        self,
        change: Change,
        takeovers: AllowTakeovers | None,
        now_ms: int,
        proposals: Sequence[Proposal],
    ) -> None:
        """Commit, and let standbys take over meanwhile: no GPU waits for the disk.

        The takeovers that are allowed are on disk, and those that are about to be are not. So only
        what is among both is done, and that is right whether the commit succeeds or not. What
        a user asks for may change more than that: then all wait for the end of the turn.
        """
        takeover = self._takeover
        if proposals or takeover is None:
            self._store.commit(self.state, change)
            return
        takeover.narrow_to(takeovers)
        takeover.take_over(now_ms)
        self._store.commit(self.state, change, lambda: takeover.take_over(now_ms))

    def _carry_out(
        self, commands: Sequence[Command], takeovers: AllowTakeovers | None, now_ms: int
    ) -> None:
        if self._takeover is not None:
            self._takeover.allow(takeovers, self._store.launch)
        self._executor.carry_out(commands, self._store.launch, now_ms)


def in_order(facts: Sequence[ev.Fact]) -> Sequence[ev.Fact]:
    """The facts, with those of an attempt that has followed another after the other's end."""
    ends = {
        fact.taken_over_by: fact
        for fact in facts
        if isinstance(fact, ev.AttemptExited) and fact.taken_over_by is not None
    }
    if not ends:
        return facts
    ordered: dict[int, ev.Fact] = {}
    for fact in facts:
        before = [fact]
        while (end := ends.get((before[-1].job_id, before[-1].attempt))) is not None:
            before.append(end)
        for one in reversed(before):
            ordered.setdefault(id(one), one)
    return list(ordered.values())
