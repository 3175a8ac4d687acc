"""The course of a quantity over time, kept in little room.

Two kinds: of an attempt, whole but ever coarser the longer it takes; of a GPU, the last minutes in
detail and the last day in outline. Of memory the most within a step is kept, of use the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MOST_SAMPLES = 512
FINE_MS = 20 * 60_000
COARSE_STEP_MS = 60_000
COARSE_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured at a moment; None is what is not known."""

    at_ms: int
    use_percent: int | None
    ours_mib: int | None
    others_mib: int | None = None


def merged(one: Sample, other: Sample) -> Sample:
    """Two samples as one, at the time of the first."""
    return Sample(
        one.at_ms,
        _known(one.use_percent, other.use_percent, lambda a, b: round((a + b) / 2)),
        _known(one.ours_mib, other.ours_mib, max),
        _known(one.others_mib, other.others_mib, max),
    )


def _known(one: int | None, other: int | None, of_both: Callable[[int, int], int]) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return of_both(one, other)


@dataclass(slots=True)
class Course:
    """The whole course of an attempt: when there are too many samples, each two become one."""

    samples: list[Sample] = field(default_factory=list)
    step_ms: int = 0

    def add(self, sample: Sample) -> None:
        """Take in one more."""
        last = self.samples[-1] if self.samples else None
        if last is not None and sample.at_ms - last.at_ms < self.step_ms:
            self.samples[-1] = merged(last, sample)
            return
        self.samples.append(sample)
        if len(self.samples) > MOST_SAMPLES:
            span_ms = sample.at_ms - self.samples[0].at_ms
            self.step_ms = max(1, 2 * span_ms // MOST_SAMPLES)
            self.samples = list(_coarser(self.samples, self.step_ms))


def _coarser(samples: list[Sample], step_ms: int) -> Iterator[Sample]:
    current = samples[0]
    for sample in samples[1:]:
        if sample.at_ms - current.at_ms < step_ms:
            current = merged(current, sample)
        else:
            yield current
            current = sample
    yield current


@dataclass(slots=True)
class Recent:
    """The recent course of a GPU."""

    fine: list[Sample] = field(default_factory=list)
    coarse: list[Sample] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        """Take in one more, and let go of what is too old."""
        self.fine.append(sample)
        if len(self.fine) > 64 and self.fine[0].at_ms < sample.at_ms - 2 * FINE_MS:
            self.fine = [s for s in self.fine if s.at_ms >= sample.at_ms - FINE_MS]
        last = self.coarse[-1] if self.coarse else None
        if last is not None and sample.at_ms - last.at_ms < COARSE_STEP_MS:
            self.coarse[-1] = merged(last, sample)
            return
        self.coarse.append(sample)
        if self.coarse[0].at_ms < sample.at_ms - 2 * COARSE_MS:
            self.coarse = [s for s in self.coarse if s.at_ms >= sample.at_ms - COARSE_MS]

    def all(self) -> list[Sample]:
        """In outline what is long ago, in detail what is not."""
        begin_ms = self.fine[0].at_ms if self.fine else None
        older = [s for s in self.coarse if begin_ms is None or s.at_ms < begin_ms]
        return older + self.fine


Columns = dict[str, list[int | None]]
_QUANTITIES = ("at_ms", "use_percent", "ours_mib", "others_mib")


def columns(samples: list[Sample]) -> Columns:
    """As plots want it: one list a quantity."""
    return {name: [getattr(sample, name) for sample in samples] for name in _QUANTITIES}


def samples_of(kept: Columns) -> list[Sample]:
    """The opposite of `columns`."""
    rows = zip(*(kept[name] for name in _QUANTITIES), strict=True)
    return [Sample(at_ms or 0, *measured) for at_ms, *measured in rows]
