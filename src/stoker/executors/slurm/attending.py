"""Looking after the attempts that the cluster has: what their files say, and how they are ended.

The files are looked at whether the controller answers or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stoker.core import events as ev
from stoker.core.model import Exit
from stoker.executors.attempt_dir import exit_written_at_ms, read_exit
from stoker.executors.slurm import files as on_disk
from stoker.executors.slurm.cancelling import Canceller
from stoker.executors.slurm.cases import Case, Key, last_id_of, slurm_id_of
from stoker.executors.slurm.facts import ClusterFacts
from stoker.executors.slurm.squeue import Seen
from stoker.executors.slurm.verdict import Found, Heard, ending, may_be_a_signal
from stoker.executors.slurm.watching import Watcher

_FILES_ARRIVE_WITHIN_S = 2.0
_LOST_AFTER_S = 5.0
_VANISHED_AFTER_S = 30.0
_EXIT_WITHOUT_WORD_S = 60.0
_ENDS_AGAIN_S = 5.0


class Attendant:
    """Tells of starts by `tell`, and of an end, once for each case, by `over`."""

    def __init__(
        self,
        canceller: Canceller,
        watcher: Watcher,
        clock: Callable[[], int],
        tell: Callable[[ev.Fact], None],
        over: Callable[[Case, ev.Fact], None],
    ) -> None:
        self._canceller = canceller
        self._watcher = watcher
        self._clock = clock
        self._tell = tell
        self._over = over
        self.facts = ClusterFacts()
        self.to_account: list[Case] = []  # those of which only the accounting can know

    def look(self, case: Case, now: float) -> None:
        """See where an attempt stands, and do what follows from it."""
        found = self._found(case, now)
        heard = self._heard(case, now)
        fact = ending(case.key, self._clock(), found, heard, case.stopping)
        if fact is not None and self._is_to_be_accounted(case, found, heard):
            return
        if fact is not None:
            self._end(case, fact, now)
        elif case.stopping:
            self._stop(case, now)

    def _found(self, case: Case, now: float) -> Found:
        waits = case.seen is not None and case.seen.state == "PENDING"
        if case.seen is not None and not case.seen.live:
            on_disk.refresh(case.directory)
        if case.started is None:
            case.started = on_disk.read_start(case.directory)
            if case.started is not None:
                self._began(case, now)
        if case.started is None and waits:
            return Found()
        how = read_exit(case.directory)
        told = on_disk.was_told_to_stop(case.directory)
        if how is not None and case.exit_noticed_at is None:
            case.exit_noticed_at = now
            if told or may_be_a_signal(how):
                self._watcher.soon()  # Only Slurm knows why.
        return Found(
            how,
            exit_written_at_ms(case.directory) if how is not None else None,
            case.started,
            on_disk.read_refusal(case.directory),
            told,
            _was_killed(how, case.seen) and on_disk.took_too_much_memory(case.directory),
        )

    def _began(self, case: Case, now: float) -> None:
        started = case.started
        assert started is not None
        case.started_noticed_at = now
        if not started.withdrawn:
            place = f"{started.slurm_id} {started.node}"
            at_ms = min(started.at_ms, self._clock())
            self._tell(ev.AttemptStarted(at_ms, *case.key, None, place))

    def _heard(self, case: Case, now: float) -> Heard:
        began_unfinished = case.started is not None and case.exit_noticed_at is None
        patience = _VANISHED_AFTER_S if began_unfinished else _LOST_AFTER_S
        missing = case.missing_since is not None and (
            case.missing_polls >= 2 and now - case.missing_since >= patience
        )
        conclusive = (
            case.final_since is not None and now - case.final_since >= _FILES_ARRIVE_WITHIN_S
        )
        if case.exit_noticed_at is not None and now - case.exit_noticed_at > _EXIT_WITHOUT_WORD_S:
            conclusive = True
        # Slurm itself gives a launch up after a while; its prologs may take up to that long.
        launches_within_s = 3.0 * self.facts.launch_s + _LOST_AFTER_S
        return Heard(
            case.seen,
            case.started is not None and case.seen_asked_at > case.started_noticed_at,
            conclusive,
            missing,
            case.launched_at is not None and now - case.launched_at >= launches_within_s,
            case.doubtful,
        )

    def _is_to_be_accounted(self, case: Case, found: Found, heard: Heard) -> bool:
        """Where there is accounting, it is asked once before silence is taken for an answer."""
        if not (heard.missing and self.facts.accounting and last_id_of(case)):
            return False
        without = replace(heard, missing=False)
        if case.asked_the_accounting or ending(
            case.key, self._clock(), found, without, case.stopping
        ):
            return False
        if case not in self.to_account:
            self.to_account.append(case)
        return True

    # ------------------------------------------------------------------ endings

    def _end(self, case: Case, fact: ev.Fact, now: float) -> None:
        if case.started is None:
            # It must not begin after it was said to be over.
            if not on_disk.withdraw(case.directory):
                return
            self._withdraw(case, now)
        self._over(case, fact)

    def _stop(self, case: Case, now: float) -> None:
        """See to it that an attempt ends which the cluster has."""
        never_began = case.started is None or case.started.withdrawn
        if never_began and on_disk.withdraw(case.directory):
            # Whatever the controller does, or whether it answers at all: it can't start any more.
            self._withdraw(case, now)
            self._over(case, not_started(self._clock(), case.key))
            return
        slurm_id = slurm_id_of(case)
        if slurm_id is None:
            return
        if case.asked_to_stop_at is None:
            case.asked_to_stop_at = now
            self._canceller.ask_to_stop(case.label, slurm_id, case.seen, now)
        elif case.force and now - (case.ended_at_cluster_at or 0.0) > _ENDS_AGAIN_S:
            case.ended_at_cluster_at = now
            self._canceller.end(case.label, slurm_id, case.seen, now)

    def _withdraw(self, case: Case, now: float) -> None:
        """What can't start any more need not wait at the cluster."""
        if case.seen is not None and case.seen.live:
            self._canceller.withdraw(case.seen, now)
            self._watcher.soon()


def not_started(now_ms: int, key: Key) -> ev.AttemptNotStarted:
    """It was stopped before it began."""
    return ev.AttemptNotStarted(now_ms, *key, "stopped before it started")


def _was_killed(how: Exit | None, seen: Seen | None) -> bool:
    """True if only SIGKILL, or Slurm's word for an end, can tell what happened."""
    if how is None:
        return seen is not None and not seen.live
    return how in (Exit(signal=9), Exit(code=137))
