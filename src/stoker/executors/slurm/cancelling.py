"""Orders to `scancel`, few calls for many jobs, each repeated until it has had its effect.

An id of Slurm's alone is not trusted: after a crash of its controller it may be another job's. So a
call names the job too, and the name is ours alone. But told a name and some tasks of an array that
wait, `scancel` cancels all that wait. Where others of them are wanted, it is therefore told the ids
alone, in the moment after Slurm has said whose they are, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from stoker.executors.slurm.calls import Answer
from stoker.executors.slurm.squeue import Seen, indexes_text

_AGAIN_S = 3.0
_FRESH_S = 2.0
_MOST_IDS = 500


class Order(Enum):
    """What is to be done."""

    WITHDRAW = "it is not wanted any more, nor is any other of its array that waits"
    PICK = "it waits, and is not wanted any more; others of its array are"
    ASK = "all its processes are to end"
    END = "the cluster is to end it"


Way = tuple[Order, str, str]  # the name of the job at Slurm, and its state if that matters


@dataclass(slots=True)
class Canceller:
    """What is to be cancelled."""

    _wanted: dict[Way, dict[str, float]] = field(default_factory=dict)
    _last: dict[tuple[Order, str, str], float] = field(default_factory=dict)
    _under_way: tuple[Way, list[str]] | None = None
    unconfirmed: dict[str, float] = field(default_factory=dict)  # not wanted, and since when

    def withdraw(self, seen: Seen, now: float) -> None:
        """A job that never began is not wanted any more; `sift` sees to it, after Slurm's word."""
        self.unconfirmed.setdefault(seen.id, now)

    def sift(self, unwanted: Iterable[Seen], wanted: Iterable[Seen], now: float) -> None:
        """Slurm has just said that these are there: cancel what is left of the unwanted.

        That is what waits, and what was withdrawn although it runs, if only by Slurm's word. What
        else runs is coming to its end by itself.
        """
        mixed = {(seen.array_id, seen.name) for seen in wanted if seen.state == "PENDING"}
        for seen in unwanted:
            waits = seen.state == "PENDING"
            if waits or seen.id in self.unconfirmed:
                self.unconfirmed.setdefault(seen.id, now)
                partly = waits and (seen.array_id, seen.name) in mixed
                order = Order.PICK if partly else Order.WITHDRAW
                self._want((order, seen.name, ""), seen.id, now)

    def confirm(self, live: set[str], asked_at: float) -> None:
        """Slurm was asked at that moment, and these are there: all others are gone."""
        for slurm_id, ordered_at in list(self.unconfirmed.items()):
            if slurm_id not in live and asked_at >= ordered_at:
                del self.unconfirmed[slurm_id]

    def ask_to_stop(self, name: str, slurm_id: str, seen: Seen | None, now: float) -> None:
        """SIGTERM to all processes of a job that runs."""
        self._want((Order.ASK, name, _state(seen)), slurm_id, now)

    def end(self, name: str, slurm_id: str, seen: Seen | None, now: float) -> None:
        """Let the cluster end a job: SIGTERM, and SIGKILL after the cluster's own time."""
        self._want((Order.END, name, _state(seen)), slurm_id, now)

    def _want(self, way: Way, slurm_id: str, now: float) -> None:
        order, name, _ = way
        last = self._last.get((order, name, slurm_id))
        if last is None or now - last >= _AGAIN_S:
            self._wanted.setdefault(way, {})[slurm_id] = now

    def due_at(self) -> float | None:
        """When there is something to be done."""
        moments = [moment for ids in self._wanted.values() for moment in ids.values()]
        return min(moments, default=None)

    def next_words(self, now: float) -> list[str] | None:
        """The next call."""
        for way, ids in list(self._wanted.items()):
            order, name, _ = way
            if order is Order.PICK:
                # What Slurm said is out of date: its next answer will be looked through again.
                for slurm_id in [one for one, moment in ids.items() if moment < now - _FRESH_S]:
                    del ids[slurm_id]
            chosen = [slurm_id for slurm_id, moment in ids.items() if moment <= now][:_MOST_IDS]
            for slurm_id in chosen:
                del ids[slurm_id]
                self._last[order, name, slurm_id] = now
            if not ids:
                del self._wanted[way]
            if chosen:
                self._under_way = (way, chosen)
                return ["scancel", *_options(way), *_ids_text(chosen)]
        if len(self._last) > 10_000:
            self._last = {k: moment for k, moment in self._last.items() if now - moment < _AGAIN_S}
        return None

    def answered(self, answer: Answer, now: float) -> None:
        """A call that was not heard is to be made again; of any other the next poll tells."""
        call, self._under_way = self._under_way, None
        if call is None or not answer.silent:
            return
        way, ids = call
        if way[0] in (Order.ASK, Order.END):
            # All others are found anew when Slurm answers.
            wanted = self._wanted.setdefault(way, {})
            for slurm_id in ids:
                wanted.setdefault(slurm_id, now + _AGAIN_S)


def _state(seen: Seen | None) -> str:
    """The state for which an order to a job that has begun is meant.

    A controller that has forgotten the start may let it wait among others of its array.
    """
    return "SUSPENDED" if seen is not None and seen.state == "SUSPENDED" else "RUNNING"


def _options(way: Way) -> list[str]:
    order, name, state = way
    match order:
        case Order.PICK:
            return []
        case Order.WITHDRAW:
            return [f"--name={name}"]
        case Order.ASK:
            return [f"--name={name}", f"--state={state}", "--full", "--signal=TERM"]
        case Order.END:
            return [f"--name={name}", f"--state={state}"]


def _ids_text(ids: list[str]) -> list[str]:
    """`812_3`, `812_4` and `9` as `812_[3-4]` and `9`."""
    arrays: dict[str, list[int]] = {}
    words: list[str] = []
    for slurm_id in ids:
        array_id, _, index = slurm_id.partition("_")
        if index:
            arrays.setdefault(array_id, []).append(int(index))
        else:
            words.append(slurm_id)
    return words + [f"{array_id}_[{indexes_text(tasks)}]" for array_id, tasks in arrays.items()]
