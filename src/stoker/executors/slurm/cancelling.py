"""Orders to `scancel`, few calls for many jobs, each repeated until it has had its effect.

An id of Slurm's alone is never trusted: after a crash of its controller it may be another job's. So
every call names the job too, and the name is ours alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from stoker.executors.slurm.calls import Answer
from stoker.executors.slurm.squeue import Seen, indexes_text

_AGAIN_S = 3.0
_MOST_IDS = 500


class Order(Enum):
    """What is to be done."""

    WITHDRAW = "it waits, and is not wanted any more"
    ASK = "all its processes are to end"
    END = "the cluster is to end it"


@dataclass(slots=True)
class _Call:
    order: Order
    name: str
    ids: list[str]


@dataclass(slots=True)
class Canceller:
    """What is to be cancelled."""

    _wanted: dict[tuple[Order, str], dict[str, float]] = field(default_factory=dict)
    _last: dict[tuple[Order, str, str], float] = field(default_factory=dict)
    _under_way: _Call | None = None
    unconfirmed: dict[str, float] = field(default_factory=dict)  # withdrawn, and when

    def withdraw(self, seen: Seen, now: float) -> None:
        """Cancel a job that waits."""
        self.unconfirmed.setdefault(seen.id, now)
        self._want(Order.WITHDRAW, seen.name, seen.id, now)

    def confirm(self, live: set[str], asked_at: float) -> None:
        """Slurm was asked at that moment, and these are there: all others are gone."""
        for slurm_id, ordered_at in list(self.unconfirmed.items()):
            if slurm_id not in live and asked_at >= ordered_at:
                del self.unconfirmed[slurm_id]

    def ask_to_stop(self, name: str, slurm_id: str, now: float) -> None:
        """SIGTERM to all processes of a job that runs."""
        self._want(Order.ASK, name, slurm_id, now)

    def end(self, name: str, slurm_id: str, now: float) -> None:
        """Let the cluster end a job: SIGTERM, and SIGKILL after the cluster's own time."""
        self._want(Order.END, name, slurm_id, now)

    def _want(self, order: Order, name: str, slurm_id: str, now: float) -> None:
        last = self._last.get((order, name, slurm_id))
        if last is None or now - last >= _AGAIN_S:
            self._wanted.setdefault((order, name), {}).setdefault(slurm_id, now)

    def due_at(self) -> float | None:
        """When there is something to be done."""
        moments = [moment for ids in self._wanted.values() for moment in ids.values()]
        return min(moments, default=None)

    def next_words(self, now: float) -> list[str] | None:
        """The next call."""
        for (order, name), ids in list(self._wanted.items()):
            chosen = [slurm_id for slurm_id, moment in ids.items() if moment <= now][:_MOST_IDS]
            if not chosen:
                continue
            for slurm_id in chosen:
                del ids[slurm_id]
                self._last[order, name, slurm_id] = now
            if not ids:
                del self._wanted[order, name]
            self._under_way = _Call(order, name, chosen)
            signal = ["--full", "--signal=TERM"] if order is Order.ASK else []
            return ["scancel", f"--name={name}", *signal, *_ids_text(chosen)]
        self._forget(now)
        return None

    def answered(self, answer: Answer, now: float) -> None:
        """A call that was not heard is to be made again; of any other the next poll tells."""
        call, self._under_way = self._under_way, None
        if call is None or not answer.silent:
            return
        wanted = self._wanted.setdefault((call.order, call.name), {})
        for slurm_id in call.ids:
            wanted.setdefault(slurm_id, now + _AGAIN_S)

    def _forget(self, now: float) -> None:
        if len(self._last) > 10_000:
            self._last = {k: moment for k, moment in self._last.items() if now - moment < _AGAIN_S}


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
