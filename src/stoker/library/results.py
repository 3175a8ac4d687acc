"""Which point was best, from Python: the work behind `Client.results`, and a job's metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from stoker.errors import Failed, UsageError
from stoker.installing import install_command
from stoker.library.forms import id_texts
from stoker.library.searching import Search
from stoker.metrics.asking import Call, Summary
from stoker.metrics.gathering import Question, Sources, gather, metrics_of, objectives_of
from stoker.metrics.result_columns import columns_of
from stoker.metrics.results import Result, ResultTable, arranged

Names = str | Sequence[str]


class Results(list[Result]):
    """Rows of results, the best first if it was said what is best.

    `varied` and `metrics` are the names of what the rows have; `repeat` the parameter that only
    repeats points.
    """

    def __init__(self, rows: Iterable[Result], table: ResultTable) -> None:
        super().__init__(rows)
        self.varied = table.varied
        self.metrics = table.metrics
        self.repeat = table.repeat
        self._table = table

    @property
    def best(self) -> Result | None:
        """The best row, also if it was cut off; of several objectives the first on the front."""
        return next(iter(self._table.best), None)

    @property
    def front(self) -> list[Result]:
        """The rows that no other is better than: the best one, or with several the Pareto front."""
        return self._table.best

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with the columns of `stoker results --csv`."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise Failed("pandas is missing", f"install it: {install_command('pandas')}") from None
        return pandas.DataFrame(columns_of(self._table, self))


def results(
    call: Call,
    jobs: Iterable[Any],
    select: dict[str, Any],
    objectives: tuple[Names, Names],
    sources: tuple[Names, str | None],
    repeat: str | None,
    single: bool,
    order: tuple[str | None, bool, int | None],
) -> Results:
    """See `Findings.results`."""
    said = Sources.said(_names(sources[0]), sources[1])
    if said.patterns and threading.current_thread() is not threading.main_thread():
        raise UsageError("an expression can only be used in the main thread", "call results there")
    wanted = objectives_of(*map(_names, objectives))
    table = gather(call, Question(list(_words(jobs)), select, wanted, said, repeat, single))
    return Results(arranged(table, *order), table)


def metrics_of_job(call: Call, job: Any) -> dict[str, Summary]:
    """What is known of the metrics of one job."""
    [number] = _words((job,))
    return metrics_of(call, {"ids": [number]}, Sources()).get(int(number), {})


def _names(said: Names) -> list[str]:
    return [said] if isinstance(said, str) else list(said)


def _words(jobs: Iterable[Any]) -> Iterable[str]:
    """Jobs and sweeps as they are typed."""
    for job in jobs:
        if isinstance(job, Search) or (hasattr(job, "count") and hasattr(job, "ids")):
            yield job.name  # what `sweep` or `search` gave
        elif isinstance(job, list | tuple):
            yield from _words(job)
        else:
            yield from id_texts((job,))
