"""Asks for the metrics of the job that is looked at, in a thread: the view never waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.errors import StokerError
from stoker.metrics.asking import Curve, curves_in
from stoker.metrics.names import goal_of

_ASK_S = 1.0
_PATIENCE_MS = 1000  # for a log that was not read yet
_MOST_ASK_S = 4.0  # where nothing changes
_GOALS = ("min", "max", None)


@dataclass(frozen=True, slots=True)
class CurveNews:
    """The metrics that a job has, the likeliest to be looked at first."""

    job_id: int
    curves: list[Curve]


class CurveReader(threading.Thread):
    """Follows the metrics of one job until it is stopped; without a daemon it tries again."""

    def __init__(self, home: Home, job_id: int, show: Callable[[CurveNews], None]) -> None:
        super().__init__(name=f"metrics of job {job_id}", daemon=True)
        self._home = home
        self._job_id = job_id
        self._show = show
        self._over = threading.Event()

    def stop(self) -> None:
        """Ask no more; the thread ends by itself."""
        self._over.set()

    def run(self) -> None:
        """Ask and tell."""
        shown: list[Curve] | None = None
        pause_s = _ASK_S
        with Client(self._home, autostart=False) as client:
            while not self._over.is_set():
                curves = self._ask(client)
                pause_s = min(2 * pause_s, _MOST_ASK_S)
                if curves is not None and curves != shown and not self._over.is_set():
                    pause_s, shown = _ASK_S, curves
                    self._show(CurveNews(self._job_id, curves))
                self._over.wait(pause_s)

    def _ask(self, client: Client) -> list[Curve] | None:
        try:
            answer = client.call("curve", job_id=self._job_id, patience_ms=_PATIENCE_MS)
        except StokerError:  # The view itself says that there is no daemon, or no such job.
            return None
        curves = curves_in(answer)
        order = {one.summary.name: _GOALS.index(goal_of(one.summary.name)) for one in curves}
        return sorted(curves, key=lambda one: (order[one.summary.name], one.summary.name))
