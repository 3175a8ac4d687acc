"""What Slurm's accounting says of jobs that its controller does not know any more."""

from __future__ import annotations

from collections.abc import Container

from stoker.executors.slurm.attending import Attendant
from stoker.executors.slurm.calls import Answer
from stoker.executors.slurm.cases import Case, Key, last_id_of
from stoker.executors.slurm.facts import SACCT_FIELDS, accounted_from_text
from stoker.executors.slurm.squeue import FINAL
from stoker.executors.slurm.watching import Watcher

_TRIES_AGAIN_S = 30.0


class Accounting:
    """Asks for the cases of which the attendant wants to know."""

    def __init__(self, attendant: Attendant, watcher: Watcher) -> None:
        self._attendant = attendant
        self._watcher = watcher
        self._asked: list[Case] = []
        self.due_at = 0.0

    def next_words(self, known: Container[Key], now: float) -> list[str] | None:
        """The call that is to be made, if one is."""
        if not self._attendant.to_account or now < self.due_at:
            return None
        wanted, self._attendant.to_account = self._attendant.to_account, []
        cases = [one for one in wanted if one.key in known and not one.asked_the_accounting]
        if not cases:
            return None
        self._asked = cases
        ids = ",".join(map(last_id_of, cases))
        fixed = ["sacct", "--noheader", "--parsable2", "--allocations", f"--format={SACCT_FIELDS}"]
        return [*fixed, f"--jobs={ids}"]

    def answered(self, answer: Answer, now: float) -> None:
        """Take the answer in."""
        cases, self._asked = self._asked, []
        if answer.silent:
            self.due_at = now + _TRIES_AGAIN_S  # What is still to be known comes again.
            return
        told = accounted_from_text(answer.out.decode(errors="replace")) if answer.ok else []
        for case in cases:
            case.asked_the_accounting = True
            for one in told:
                # The name tells it from another job that had the same id.
                if one.id == last_id_of(case) and one.name == case.label and one.state in FINAL:
                    case.seen = self._watcher.accounted(one, case.batch)
                    case.final_since = now
