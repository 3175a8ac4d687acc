"""What if? One trace, played on several machines, by several policies: the figures side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from stoker.errors import NotFound, UsageError, quoted
from stoker.ports import SeenGpu
from stoker.quantities import MAX_GPUS, memory_mib, whole_number
from stoker.sim.figures import Figures, figures
from stoker.sim.history import read_history
from stoker.sim.picture import drawn
from stoker.sim.play import POLICIES, Play, Ran, gpus_like
from stoker.sim.readers import Trace, read_trace
from stoker.sim.traces import MEMORY_WAYS, arrival

Progress = Callable[[str, int, int], object]
"""Told of what is played, how many jobs have ended, and of how many."""


@dataclass(frozen=True, slots=True)
class Way:
    """One machine and one way of using it."""

    gpus: str  # as it was said; empty: as they are
    policy: str
    memory: str


@dataclass(frozen=True, slots=True)
class Played:
    """A way, and what it came to."""

    way: Way
    gpus: int
    figures: Figures
    ran: Sequence[Ran]


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be played, and how."""

    trace: Path | None = None
    database: Path | None = None  # one's own, if there is no trace
    since_ms: int = 0
    gpus: Sequence[str] = ()
    policies: Sequence[str] = ()
    memories: Sequence[str] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer."""

    trace: Trace
    plays: Sequence[Played]
    unmeasured: int  # jobs of which no memory is known

    def picture(self) -> str:
        """All plays, one below the other, as SVG."""
        return drawn([(way_text(one.way, one.gpus), one.ran, one.gpus) for one in self.plays])


def machine(text: str) -> list[SeenGpu]:
    """`8:24G`: eight GPUs of 24 GiB; `4:24G+2:80G`; `8`: their memory does not matter."""
    found: list[SeenGpu] = []
    for part in text.split("+"):
        count, colon, memory = part.strip().partition(":")
        try:
            number = whole_number(count.strip(), 1, MAX_GPUS)
            mib = memory_mib(memory) if colon else None
        except UsageError as error:
            hint = error.hint or "write e.g. 8:24G"
            raise UsageError(f"{quoted(text)}: {error.message}", hint) from None
        found += [replace(gpu, memory_mib=mib) for gpu in gpus_like(number, mib, measured=False)]
    return [replace(gpu, id=str(n), index=n) for n, gpu in enumerate(found)]


def way_text(way: Way, gpus: int) -> str:
    """A way in words."""
    return f"{way.gpus or f'{gpus} GPUs'}, {way.policy}, --mem {way.memory}"


def what_if(question: Question, progress: Progress | None = None) -> WhatIf:
    """Play it all."""
    for policy in question.policies:
        _known(policy, POLICIES, "policy")
    for memory in question.memories:
        _known(memory, MEMORY_WAYS, "way to use memory")
    machines: dict[str, list[SeenGpu]] = {text: machine(text) for text in question.gpus}
    trace, own = _read(question)
    if not machines:
        if not own:
            raise UsageError("it is not known which GPUs there are", "say --gpus 8:24G")
        machines = {"": own}
    ways = product(machines, question.policies or ("fifo",), question.memories or ("auto",))
    plays = [_play(trace, Way(*way), machines[way[0]], question.seed, progress) for way in ways]
    return WhatIf(trace, plays, sum(one.peak_mib is None for one in trace.jobs))


def _known(word: str, known: Sequence[str], what: str) -> None:
    if word not in known:
        raise UsageError(f"there is no {what} {quoted(word)}", f"there is {', '.join(known)}")


def _read(question: Question) -> tuple[Trace, list[SeenGpu]]:
    if question.trace is not None:
        return read_trace(question.trace), []
    assert question.database is not None
    trace, gpus = read_history(question.database, question.since_ms)
    if not trace.jobs:
        why = ", ".join(f"{count} {what}" for what, count in trace.left_out.items())
        raise NotFound(
            "there are no jobs in that time that have run" + (f" ({why})" if why else ""),
            "say a longer time, e.g. --history 90d",
        )
    return trace, gpus


def _play(
    trace: Trace, way: Way, gpus: Sequence[SeenGpu], seed: int, progress: Progress | None
) -> Played:
    arrivals = [arrival(job, way.memory) for job in trace.jobs]
    # Where nothing is learned, no driver need be asked.
    if any(one.need.kind is not None for one in arrivals) and all(gpu.memory_mib for gpu in gpus):
        gpus = [replace(gpu, vendor="stand-in") for gpu in gpus]
    said, count = way_text(way, len(gpus)), len(arrivals)
    told: Callable[[int], object] | None = None
    if progress is not None:
        to = progress
        told = lambda ended: to(said, ended, count)  # noqa: E731
    ran = Play(arrivals, gpus, policy=way.policy, seed=seed).run(told)
    return Played(way, len(gpus), figures(ran, len(gpus)), ran)
