"""The part of a client that waits for the ends of jobs: all of them, any, or each in its turn."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from stoker.api.client import ConnectionLost, NoAnswerYet
from stoker.api.reconnect import Reconnection
from stoker.errors import Unavailable
from stoker.library.connection import Connection
from stoker.text.jobs import FINAL_STATES
from stoker.text.searches import is_searching

Job = dict[str, Any]


class Waiting(ABC):
    """Each waits on a connection of its own, so that other threads can go on with the client."""

    _connection: Connection

    @abstractmethod
    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """Any message of the api, as it is."""

    @abstractmethod
    def ls(
        self, *jobs: Any, name: str | None = None, group: str | None = None, all: bool = False
    ) -> list[Job]:
        """See `Client.ls`."""

    def wait(
        self,
        *jobs: Any,
        name: str | None = None,
        group: str | None = None,
        timeout: float | None = None,
        any: bool = False,
    ) -> list[Job]:
        """Return when all of these jobs have ended; TimeoutError if the time (s) passes first.

        With `any`, when one of them has: those that have ended. A `group` that is a search has
        ended when the search is over.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        by_group = group is not None and not jobs and name is None and not any
        if by_group and is_searching(self.call, str(group)):
            select: dict[str, Any] = {"group": group}  # Its points are still to be chosen.
        else:
            found = self.ls(*jobs, name=name, group=group, all=True)
            if not found:
                return []
            select = {"ids": [str(job["id"]) for job in found]}
        asked = {"select": select, **({"any": True} if any else {})}
        mine = self._connection
        with Connection(mine.home, autostart=mine.autostart) as connection:
            for answer in _answers(connection, asked, deadline):
                ended: list[Job] = answer["jobs"]
                if all(job["state"] in FINAL_STATES for job in ended):
                    return ended
        raise AssertionError("the answers go on until jobs have ended")

    def as_completed(
        self,
        *jobs: Any,
        name: str | None = None,
        group: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[Job]:
        """These jobs as they end, the first to end first; TimeoutError if the time passes."""
        deadline = None if timeout is None else time.monotonic() + timeout
        left = {job["id"] for job in self.ls(*jobs, name=name, group=group, all=True)}
        mine = self._connection
        with Connection(mine.home, autostart=mine.autostart) as connection:
            while left:
                asked = {
                    "select": {"ids": [str(job_id) for job_id in sorted(left)]},
                    "one_by_one": True,
                }
                for answer in _answers(connection, asked, deadline):
                    if "event" not in answer:
                        break  # Those that were told before.
                    for job in answer["jobs"]:
                        if job["id"] in left:
                            left.discard(job["id"])
                            yield job


def _answers(
    connection: Connection, asked: dict[str, Any], deadline: float | None
) -> Iterator[dict[str, Any]]:
    """What the daemon says to a `wait`, which is asked again if it goes away meanwhile."""
    while True:
        try:
            connection.send("wait", **asked)
            while True:
                left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
                answer = connection.receive(left_s)
                yield answer
                if "event" not in answer:
                    break
        except NoAnswerYet:
            raise TimeoutError("not all of these jobs have ended") from None
        except ConnectionLost:
            connection.close()
        except Unavailable as error:
            # It was stopped on purpose: it is not for us to start it again.
            if not Reconnection(connection, lambda text: None).wait(error, deadline):
                raise TimeoutError("the daemon was stopped") from None
