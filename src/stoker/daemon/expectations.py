"""How long jobs should run, by what others took that are like them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from stoker.core.run_times import likely
from stoker.core.state import State
from stoker.learn.parameters import Run, most_alike
from stoker.store.views import Views

_MOST_RUNS = 60  # of a kind, that are looked at
_MOST_ALIKE = 20


class Expect:
    """See core.forecast; what it has looked up it keeps, so make one for each question."""

    def __init__(self, views: Views, state: State) -> None:
        self._views = views
        self._state = state
        self._jobs: dict[int, tuple[str, str | None]] | None = None  # kind and parameters
        self._of_kind: dict[str, list[Run]] = {}
        self._alike: dict[tuple[str, str | None, int], list[int]] = {}

    def __call__(self, job_id: int) -> Sequence[int]:
        """What a job may take."""
        return likely(self._runs(job_id), self._state.order.run_times.usual)

    def learned(self, job_id: int) -> tuple[int | None, int]:
        """How long a job should run, None if nothing is known; and how many runs tell it."""
        runs = self._runs(job_id)
        return (sum(runs) // len(runs) if runs else None, len(runs))

    def _runs(self, job_id: int) -> list[int]:
        if self._jobs is None:
            self._jobs = self._views.kinds_of_unfinished()
        kind, params = self._jobs.get(job_id, ("", None))
        job = self._state.jobs.get(job_id)
        key = (kind, params, 0 if job is None else job.need.gpus)
        known = self._alike.get(key)
        if known is None:
            if kind not in self._of_kind:
                rows = self._views.run_times(kind, _MOST_RUNS) if kind else []
                self._of_kind[kind] = [Run(ms, gpus, _read(text)) for ms, gpus, text in rows]
            known = most_alike(self._of_kind[kind], key[2], _read(params))[:_MOST_ALIKE]
            self._alike[key] = known
        return known


def _read(params: str | None) -> dict[str, object]:
    """The parameters of a point, as they are kept."""
    return dict(json.loads(params)) if params else {}
