"""Requests whose clients stay: `stoker wait`, `stoker run`, and those that follow or watch jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stoker.api import messages as msg
from stoker.core.reasons import outcome_words
from stoker.daemon.requests.reply import Daemon
from stoker.daemon.requests.selecting import UNFINISHED, selected
from stoker.daemon.server import Connection
from stoker.errors import StokerError
from stoker.store.views import Views, outcome_of


def wait(daemon: Daemon, request: msg.Wait, connection: Connection) -> None:
    """Answer once all these jobs have ended, and the search that they are points of."""

    def over() -> None:
        connection.on_close.remove(left)
        try:
            _wait_for_jobs(daemon, request, connection)
        except StokerError as error:  # It has ended without any point.
            connection.fail(error)

    group = request.select.group
    if request.any or request.one_by_one:
        group = None
    left = None if group is None else daemon.searches.when_over(group, over)
    if left is None:
        _wait_for_jobs(daemon, request, connection)
    else:
        connection.on_close.append(left)


def _wait_for_jobs(daemon: Daemon, request: msg.Wait, connection: Connection) -> None:
    ids = selected(request.select, daemon.views, daemon.turn_loop.state, UNFINISHED)
    first_ones = request.any or request.one_by_one
    told: set[int] = set()

    def left() -> None:
        daemon.turn_loop.unwatch(watcher)

    def done() -> None:
        ended = ids
        if first_ones:
            unfinished = daemon.turn_loop.state.jobs
            ended = [job_id for job_id in ids if job_id not in unfinished]
            if request.one_by_one:
                new = [job_id for job_id in ended if job_id not in told]
                told.update(new)
                if new:
                    connection.tell(event="ended", jobs=_endings(daemon.views, new))
            if not ended or (request.one_by_one and len(told) < len(ids)):
                return
        connection.answer(jobs=_endings(daemon.views, ended))
        if left in connection.on_close:  # A client may wait for one thing after the other.
            connection.on_close.remove(left)
            left()

    watcher = daemon.turn_loop.watch(ids, done, each=first_ones)
    if watcher.missing:
        connection.on_close.append(left)
        if first_ones:
            done()  # Some may have ended before.


def _endings(views: Views, job_ids: Iterable[int]) -> list[dict[str, Any]]:
    """How these jobs have ended, in the order of their ids."""
    said: dict[tuple[Any, ...], str | None] = {}  # Thousands of jobs end in a few ways.
    found = []
    for row in views.endings(job_ids):
        how = (row["state"], row["cause"], row["exit_code"], row["signal"], row["detail"])
        if how not in said:
            outcome = outcome_of(row)
            said[how] = outcome_words(outcome) if outcome is not None else None
        told = {name: row[name] for name in ("id", "name", "state", "exit_code", "signal")}
        found.append(told | {"reason": said[how]})
    return found


def follow(daemon: Daemon, request: msg.Follow, connection: Connection) -> None:
    """Tell of a group's starts and ends."""
    daemon.followers.follow(request.group, connection)


def watch(daemon: Daemon, request: msg.Watch, connection: Connection) -> None:
    """Tell of all changes."""
    daemon.watchers.watch(request.every_ms, connection)


def attach(daemon: Daemon, request: msg.Attach, connection: Connection) -> None:
    """The terminal of a job is there."""
    daemon.terminals.attach(request, connection)


def attach_started(daemon: Daemon, request: msg.AttachStarted, connection: Connection) -> None:
    """A terminal has started its job, or could not."""
    daemon.terminals.started(request)
    connection.take_more()
