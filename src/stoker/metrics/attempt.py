"""The metrics of one attempt, from all its sources.

What a job says expressly counts before what is only found: of a name that several sources have, the
reports come first, then files, then the log, then the file of --err.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.errors import StokerError, UsageError
from stoker.metrics.patterns import PATIENCE_S, TooSlow, read_pattern
from stoker.metrics.reading import Metrics
from stoker.metrics.series import Series
from stoker.metrics.sources import Folder, Source, Tail
from stoker.metrics.spec import Spec

_ALL_OF_IT = 1 << 62


def read_attempt(spec: Spec) -> dict[str, Series]:
    """The metrics of an attempt by name, read here and now; what is in the way of it is raised.

    For what was not asked for when the job was queued. All else is kept: see `asking`.
    """
    reading = Reading(spec)
    while reading.read(_ALL_OF_IT, ended=True):
        pass
    if reading.trouble is not None:
        raise reading.trouble
    return reading.metrics()


class Reading:
    """Reads an attempt bit by bit."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.trouble: StokerError | None = None  # why something is not read
        self._gave_up = False
        self.stored = ""  # how far, when it was last stored
        self.stored_after: int | None = None
        self.whole = False  # The attempt has ended, and all of it was read.
        self.sources: dict[int, Source] = {}  # by number, which says what counts before what
        patterns = []
        for text in spec.patterns:
            try:
                patterns.append(read_pattern(text))
            except StokerError as error:  # Another version of Python took it for right.
                self.trouble = error
        for number, path in enumerate((spec.err, spec.log)):
            if path is not None:
                self.sources[number] = Tail(path, patterns, reports=False)
        if spec.folder is not None:
            self.sources[2] = Folder(spec.folder)
        for number, path in enumerate(spec.reports, start=3):
            self.sources[number] = Tail(path, reports=True)

    def read(self, most: int, *, ended: bool) -> bool:
        """Read on, but not much more than so many bytes of each source; whether there is more."""
        more = False
        for number, source in list(self.sources.items()):
            try:
                more |= source.read(most, ended=ended)
            except TooSlow:
                self._give_up_patterns()
                return True
            except StokerError as error:  # What would read its files is not installed.
                self.trouble = error
                del self.sources[number]
        self.whole = ended and not more
        return more

    def _give_up_patterns(self) -> None:
        """Read all again without the expressions, since one takes too long."""
        self._gave_up = True
        self.trouble = UsageError(
            f"an expression of --metric takes more than {PATIENCE_S:g} s for a part of the log",
            "avoid groups such as (x+)+ that can match in many ways",
        )
        for number, path in enumerate((self.spec.err, self.spec.log)):
            if path is not None:
                self.sources[number] = Tail(path, reports=False)
                self.sources[number].was_reset = True

    def metrics(self) -> dict[str, Series]:
        """What was found, by name."""
        found = Metrics()
        for _, source in sorted(self.sources.items()):
            found.replace(source.metrics)
        return {name: series.shown() for name, series in found.by_name.items()}

    def state(self) -> dict[str, Any]:
        """How far all was read, as JSON; the series are stored apart."""
        sources = {str(number): source.state() for number, source in self.sources.items()}
        return {"gave_up": self._gave_up, "sources": sources}

    def go_on(self, state: Mapping[str, Any], series: Mapping[int, dict[str, Series]]) -> None:
        """Go on where another was, which had found these series in its sources."""
        if state["gave_up"]:
            self._give_up_patterns()
        for number, said in state["sources"].items():
            if int(number) in self.sources:
                self.sources[int(number)].go_on(said, series.get(int(number), {}))
