"""What a client can find out of metrics; what that takes is loaded when it is asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.library.results import Results
    from stoker.metrics.asking import Summary

Names = str | Sequence[str]


class Findings(ABC):
    """The part of a client that compares jobs."""

    @abstractmethod
    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """Any message of the api, as it is."""

    def results(
        self,
        *jobs: Any,
        name: str | None = None,
        group: str | None = None,
        minimize: Names = (),
        maximize: Names = (),
        metrics: Names = (),
        metrics_from: str | None = None,
        repeat: str | None = None,
        single: bool = False,
        sort: str | None = None,
        reverse: bool = False,
        top: int | None = None,
    ) -> Results:
        """Compare jobs by their parameters and metrics, as `stoker results` does.

        Jobs are a sweep (its name, what `sweep` returned, or "last" for the newest one), ids,
        futures, a `name` or a `group`. The best row has the lowest value of `minimize`, or the
        highest of `maximize`.
        """
        from stoker.library import kinds
        from stoker.library import results as found

        kinds.check("a text", name=name, group=group, metrics_from=metrics_from, repeat=repeat,
                    sort=sort)  # fmt: skip
        kinds.check("a text or a list of texts",
                    minimize=minimize, maximize=maximize, metrics=metrics)  # fmt: skip
        kinds.check("True or False", single=single, reverse=reverse)
        kinds.check("a whole number", top=top)
        select: dict[str, Any] = {} if name is None else {"names": [name]}
        if group is not None:
            select["group"] = group
        sources, order = (metrics, metrics_from), (sort, reverse, top)
        objectives = (minimize, maximize)
        return found.results(self.call, jobs, select, objectives, sources, repeat, single, order)

    def metrics(self, job: Any) -> dict[str, Summary]:
        """The metrics of a job by their names: `last`, `min` and `max`, with their steps."""
        from stoker.library.results import metrics_of_job

        return metrics_of_job(self.call, job)
