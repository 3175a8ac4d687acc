"""The handle of a call: a concurrent.futures.Future that is resolved by the end of its job.

To the outside it is waiting, running or done, as any future. Inside, the base class is told only
of the end: it has no move from running to cancelled, and a job can be cancelled while it runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from stoker.library.calls import Result
from stoker.library.failures import RemoteTraceback
from stoker.text.logfile import whole_log

if TYPE_CHECKING:
    from stoker.api.paths import Home
    from stoker.metrics.asking import Summary

T = TypeVar("T")


class Orders(Protocol):
    """What a future asks of the channel that it came from."""

    home: Home

    def cancel(self, job_ids: list[int]) -> list[int]:
        """Cancel jobs; those that had not ended yet."""

    def job(self, job_id: int) -> dict[str, Any]:
        """All that is known of a job."""

    def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Any other message."""


class JobFuture(Future[T]):
    """The result of a call that is, or will be, made by a job."""

    def __init__(self, orders: Orders | None = None) -> None:
        super().__init__()
        self.job_id: int | None = None  # None for a result that was there before any job
        self.gpus: tuple[str, ...] = ()  # those of the latest attempt, once it has started
        self.on_started: Callable[[JobFuture[T]], None] | None = None
        self.folder: str | None = None  # of a point whose result was there before any job
        self._requests = orders
        self.log_path: str | None = None  # where its output is, if not in the job's own log
        self._started = False
        self._cancelling = threading.Lock()

    # --- what a user asks ---

    def cancel(self) -> bool:
        """Cancel the job, though it may run already; True unless it has ended.

        The future is cancelled at once. The job's processes are told to stop, and have the grace
        time for it; its GPUs are free when the last of them has gone.
        """
        if self.done():
            return self.cancelled()
        if self._requests is None or self.job_id is None:
            return False
        if not self._requests.cancel([self.job_id]):
            return False
        self.resolve_cancelled()
        return self.cancelled()

    def running(self) -> bool:
        """True while the job runs."""
        return self._started and not self.done()

    def job(self) -> dict[str, Any]:
        """All that `stoker show --json` knows of the job, with times in milliseconds."""
        if self._requests is None or self.job_id is None:
            return {}
        return self._requests.job(self.job_id)

    def metrics(self) -> dict[str, Summary]:
        """The metrics of the job so far, by their names: `last`, `min` and `max` with steps."""
        if self._requests is None or self.job_id is None:
            return {}
        from stoker.library.results import metrics_of_job

        return metrics_of_job(self._requests.request, self.job_id)

    def log(self) -> str:
        """What the call has printed so far."""
        return whole_log(self.log_path or self.job().get("log"))

    def __repr__(self) -> str:
        state = (
            "cancelled" if self.cancelled()
            else "done" if self.done()
            else "running" if self._started
            else "waiting"
        )  # fmt: skip
        where = f" on GPU {','.join(self.gpus)}" if self.gpus and state == "running" else ""
        return f"<JobFuture job {self.job_id}: {state}{where}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """It goes to other processes as the id of its job, or as the folder of its result."""
        if self._requests is not None and self.job_id is not None:
            from stoker.library.attaching import future

            return future, (self.job_id, self._requests.home.root)
        if self.folder is None:
            raise TypeError("this future has no job, and can't be pickled")
        from stoker.library.run_grid import done_before

        return done_before, (self.folder,)

    # --- what the channel tells ---

    def resolve_started(self, gpus: tuple[str, ...]) -> None:
        """An attempt has started."""
        self._started = True
        self.gpus = gpus
        if self.on_started is not None:
            self.on_started(self)

    def resolve_waiting(self) -> None:
        """An attempt has failed, and another one is to come."""
        self._started = False

    def resolve_cancelled(self) -> None:
        """The job was cancelled, by us or from outside."""
        # The lock is never given back: the first who comes does it, and it is done once.
        if self._cancelling.acquire(blocking=False) and super().cancel():
            self.set_running_or_notify_cancel()  # Those in `wait` are woken by this.

    def resolve_result(self, result: Result) -> None:
        """The call returned, or raised."""
        if result.ok:
            self.resolve_value(result.value)
            return
        error = result.value
        if not isinstance(error, BaseException):
            # The exception itself could not be carried over, but what it said could.
            error = RuntimeError(result.summary)
        if result.text:
            error.__cause__ = RemoteTraceback(result.text)
        self.resolve_error(error)

    def resolve_value(self, value: T) -> None:
        """The call returned."""
        try:
            self.set_result(value)
        except InvalidStateError:
            pass  # It was cancelled at the last moment.

    def resolve_error(self, error: BaseException) -> None:
        """There is no value."""
        try:
            self.set_exception(error)
        except InvalidStateError:
            pass
