"""Waiting for jobs to end, whatever becomes of the daemon meanwhile."""

from __future__ import annotations

import time
from typing import Any

from stoker.api.client import Client, ConnectionLost, NoAnswerYet
from stoker.core.model import FINAL
from stoker.errors import Unavailable, Unreachable

_LOOK_AGAIN_S = 0.25


def ended(connection: Client, ids: list[str], deadline: float | None) -> list[dict[str, Any]]:
    """The jobs once all of them have ended, whatever becomes of the daemon meanwhile."""
    while True:
        try:
            connection.send("wait", select={"ids": ids})
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            jobs: list[dict[str, Any]] = connection.receive(left_s)["jobs"]
            if all(job["state"] in FINAL for job in jobs):
                return jobs
        except NoAnswerYet:
            raise TimeoutError("not all of these jobs have ended") from None
        except ConnectionLost:
            connection.close()
        except Unavailable:
            _wait_for_daemon(connection, deadline)


def _wait_for_daemon(connection: Client, deadline: float | None) -> None:
    """The daemon was stopped on purpose: it is not for us to start it again."""
    connection.close()
    autostart, connection.autostart = connection.autostart, False
    try:
        while True:
            try:
                connection.connect()
                return
            except Unreachable:
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError("the daemon was stopped") from None
                time.sleep(_LOOK_AGAIN_S)
    finally:
        connection.autostart = autostart
