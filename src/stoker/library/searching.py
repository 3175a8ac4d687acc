"""Searches that learn, from Python: the part of a client that begins one, and what it returns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stoker.library.findings import Findings, Names
from stoker.text.searches import search_text

if TYPE_CHECKING:
    import os
    from typing import Unpack

    from stoker.api.job_keywords import Duration, PointOptions
    from stoker.library.connection import Connection
    from stoker.library.results import Results
    from stoker.metrics.results import Result

SEARCH_WORDS = ("minimize", "maximize", "sampler", "until", "for_", "stop_early", "min_steps")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is; `text` says it in words."""

    state: str  # running or ended
    trials: int
    told: int  # those that have ended
    samples: int | None
    over: str  # why it ends; while it runs, its last points are awaited
    text: str
    failed: int = 0

    @property
    def is_over(self) -> bool:
        """Whether no further point is tried, and none is awaited."""
        return self.state == "ended"


@dataclass(frozen=True, slots=True)
class Search:
    """A search that was begun: its points are the jobs of the group of its name."""

    name: str
    _client: Searching = field(repr=False, compare=False)

    def progress(self) -> Progress:
        """How far it is now."""
        [kept] = self._client.call("searches", name=self.name, brief=True)["searches"]
        said = kept["progress"]
        return Progress(
            kept["state"], said.get("trials", 0), said.get("told", 0), said.get("samples"),
            said.get("over", ""), search_text(kept), said.get("failed", 0),
        )  # fmt: skip

    def results(self) -> Results:
        """Its points, the best first; see `Client.results`."""
        return self._client.results(self.name)

    @property
    def best(self) -> Result | None:
        """The best point so far; with several objectives, the first of the Pareto front."""
        return self.results().best

    def wait(self, timeout: float | None = None) -> list[dict[str, Any]]:
        """Return its jobs when it is over and all have ended; TimeoutError if the time passes."""
        return self._client.wait(group=self.name, timeout=timeout)

    def cancel(self) -> list[int]:
        """End it, and cancel its points that have not ended; their ids."""
        return self._client.cancel(group=self.name)


class Searching(Findings):
    """The part of a client that searches."""

    @abstractmethod
    def wait(
        self, *jobs: Any, group: str | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """See `Client.wait`."""

    @abstractmethod
    def cancel(self, *jobs: Any, **which: Any) -> list[int]:
        """See `Client.cancel`."""

    @abstractmethod
    def _alone(self) -> AbstractContextManager[Connection]:
        """The connection, while no other thread uses it."""

    def search(
        self,
        command: str | Sequence[str] | None = None,
        params: Mapping[str | tuple[str, ...], Any] | None = None,
        *,
        minimize: Names = (),
        maximize: Names = (),
        samples: int | None = None,
        sampler: str | None = None,
        seed: int = 0,
        until: str | None = None,
        for_: Duration | None = None,
        stop_early: str | None = None,
        min_steps: int | None = None,
        file: str | os.PathLike[str] | None = None,
        where: str | Sequence[str] = (),
        repeat: Mapping[str, int] | None = None,
        style: str = "flags",
        rerun: str | None = None,
        max_running: int | None = None,
        name: str | None = None,
        **options: Unpack[PointOptions],
    ) -> Search:
        """Begin a search, or go on with it, as `stoker sweep --minimize` does.

        Each point is chosen by the results of those before. It ends after so many `samples`, when
        a value is good enough (until="loss < 0.3"), or when a time is over (for_="8h").
        Points that are behind others at the same step are stopped (stop_early="asha", min_steps=3).
        rerun="failed" also runs those points again that did not succeed.
        """
        from stoker.library import kinds, many
        from stoker.submission.keywords import check_keywords

        check_keywords(options, self.search)
        kinds.check("a text", sampler=sampler, until=until, stop_early=stop_early, name=name)
        kinds.check("a text or a list of texts", minimize=minimize, maximize=maximize, where=where,
                    style=style)  # fmt: skip
        kinds.check("a text or a list of words", command=command)
        kinds.check("a whole number", samples=samples, seed=seed, max_running=max_running)
        kinds.check("a dictionary", params=params, repeat=repeat)
        kinds.check("a path", file=file)
        spec = many.SweepSpec(
            command, params or {}, file, samples, seed, False, where, repeat, style, rerun,
            max_running, name, options,
        )  # fmt: skip
        wanted = many.search_wanted(minimize, maximize, file is not None)
        wanted = replace(
            wanted, sampler=sampler, until=until, for_ms=many.span_ms(for_),
            stop_early=stop_early, min_steps=many.count_of("min_steps", min_steps),
        )  # fmt: skip
        with self._alone() as connection:
            return Search(many.search(connection, spec, wanted), self)
