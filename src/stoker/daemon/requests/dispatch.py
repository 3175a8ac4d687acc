"""Which function answers which request, and how its reply gets to the client.

To add a request is to add its message (api.messages), its function, and its line in a table here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from stoker.api import curve_messages as of_curves
from stoker.api import gpu_messages as of_gpus
from stoker.api import messages as msg
from stoker.api import search_messages as of_searches
from stoker.daemon.requests import (
    adopt,
    browse,
    cancel,
    config,
    disk,
    edit,
    gpus,
    groups,
    hold,
    ls,
    metrics,
    profiles,
    requeue,
    retry,
    rm,
    searches,
    status,
    staying,
    submit,
    suspend,
    sweeps,
    web,
)
from stoker.daemon.requests.reply import AfterTurn, Daemon, Later, Reply
from stoker.daemon.server import Connection
from stoker.engine import Answer
from stoker.errors import Failed, StokerError, Unavailable
from stoker.ports import StoreFailed

log = logging.getLogger("stoker.daemon")

ANSWERS: dict[type[msg.Request], Callable[[Daemon, Any], Reply]] = {
    msg.Submit: submit.submit,
    msg.Adopt: adopt.adopt,
    msg.Cancel: cancel.cancel,
    msg.Retry: retry.retry,
    msg.Requeue: requeue.requeue,
    msg.Suspend: suspend.suspend,
    msg.ResumeJobs: suspend.resume_jobs,
    msg.Yield: requeue.give_way,
    msg.Hold: hold.hold,
    msg.Release: hold.release,
    msg.Remove: rm.remove,
    msg.Edit: edit.edit,
    msg.Pause: groups.pause,
    msg.Resume: groups.resume,
    msg.Groups: groups.groups,
    msg.LimitGroup: groups.limit_group,
    of_gpus.Gpus: gpus.gpus,
    of_gpus.GpuAdd: gpus.add,
    of_gpus.GpuRemove: gpus.remove,
    of_gpus.GpuDrain: gpus.drain,
    of_gpus.GpuResume: gpus.resume,
    of_gpus.GpuLend: gpus.lend,
    of_gpus.GpuHistory: gpus.history,
    of_gpus.Profiles: profiles.profiles,
    of_gpus.ProfilesForget: profiles.forget,
    msg.List: ls.list_jobs,
    msg.Show: ls.show,
    msg.Why: ls.why,
    of_gpus.JobHistory: ls.job_history,
    msg.Metrics: metrics.metrics,
    of_curves.Curve: metrics.curve,
    of_curves.Curves: metrics.curves,
    msg.Browse: browse.browse,
    msg.Related: browse.related,
    msg.Usage: browse.usage,
    msg.Attempts: browse.attempts,
    msg.Forecast: browse.forecast,
    msg.Points: sweeps.points,
    msg.Sweeps: sweeps.sweeps,
    msg.SweepPoints: sweeps.sweep_points,
    msg.SweepTable: sweeps.sweep_table,
    of_searches.Searches: searches.searches,
    of_searches.SearchStart: searches.start,
    of_searches.SearchTold: searches.told,
    of_searches.StopEarly: searches.stop_early,
    msg.Status: status.status,
    msg.Disk: disk.disk,
    msg.Hello: status.hello,
    msg.Shutdown: status.shutdown,
    msg.ClusterCheck: status.cluster_check,
    msg.ConfigGet: config.get,
    msg.ConfigSet: config.set_one,
    msg.PageStart: web.start,
    msg.PageStop: web.stop,
    msg.PageStatus: web.status,
}

# These have the connection for themselves, and may say more than one line on it.
STAYS: dict[type[msg.Request], Callable[[Daemon, Any, Connection], None]] = {
    msg.Wait: staying.wait,
    msg.Follow: staying.follow,
    msg.Watch: staying.watch,
    msg.Attach: staying.attach,
    msg.AttachStarted: staying.attach_started,
}


class Dispatcher:
    """Takes each request to its function, and the reply to the client."""

    def __init__(self, daemon: Daemon) -> None:
        self.connections: set[Connection] = set()
        self._daemon = daemon
        self._under_way: set[asyncio.Task[dict[str, Any]]] = set()

    def handle(self, request: msg.AnyRequest, connection: Connection) -> None:
        """Answer a request: now, after its turn, or when its work is done."""
        kind = type(request)
        try:
            if kind in STAYS:
                STAYS[kind](self._daemon, request, connection)
                return
            reply = ANSWERS[kind](self._daemon, request)
            if isinstance(reply, AfterTurn):
                self._after_turn(reply, connection)
            elif isinstance(reply, dict):
                connection.answer(**reply)
            else:
                self._later(reply, connection, kind)
        except Exception as error:
            connection.fail(_refusal(error, kind))

    def _after_turn(self, reply: AfterTurn, connection: Connection) -> None:
        def decided(answer: Answer) -> None:
            if answer.error is not None:
                connection.fail(answer.error)
                return
            fields = (answer.value or {}) if reply.name is None else {reply.name: answer.value}
            if answer.note:
                fields = {**fields, "warnings": [*fields.get("warnings", ()), answer.note]}
            connection.answer(**fields)

        self._daemon.turn_loop.ask(reply.proposal, decided)

    def _later(self, work: Later, connection: Connection, kind: type[msg.Request]) -> None:
        def done(task: asyncio.Task[dict[str, Any]]) -> None:
            self._under_way.discard(task)
            if task.cancelled():
                return
            error = task.exception()
            if error is None:
                connection.answer(**task.result())
            else:
                connection.fail(_refusal(error, kind))

        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(done)


def _refusal(error: BaseException, kind: type[msg.Request]) -> StokerError:
    """What the client is told; a bug of ours must end neither its connection nor the daemon."""
    if isinstance(error, StokerError):
        return error
    if isinstance(error, StoreFailed):
        return Unavailable(f"the state can't be saved: {error}", "make room, then try again")
    log.error("a request failed: %s", kind.__name__, exc_info=error)
    return Failed("something went wrong inside the daemon", "see its log")
