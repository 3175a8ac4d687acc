"""The searcher's process: `python -m stoker.search.main HOME NAME`, started by the daemon.

It may be killed at any moment: see `reconcile`. It ends with the daemon, at the latest when its
stdin, the daemon's line to it, is closed.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading

from stoker.api.client import Client, NoAnswerYet
from stoker.api.paths import Home
from stoker.errors import StokerError, Unreachable
from stoker.search.searcher import Searcher, why_given_up
from stoker.search.space import acceptance, dimensions
from stoker.search.spec import from_wire
from stoker.search.study import Study
from stoker.sweep.identity import trial_name

_LOOK_AGAIN_S = 60.0  # should something have changed that it was not told of


def main() -> int:
    """See the module."""
    root, name = sys.argv[1:]
    threading.Thread(target=_end_with_daemon, daemon=True).start()
    locks = os.path.join(root, "searches")
    os.makedirs(locks, 0o700, exist_ok=True)
    own = trial_name(name, 0).rpartition(":")[2]
    lock = os.open(f"{locks}/{own}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # That of a daemon that was killed is about to end.
    home = Home(root)
    try:
        with Client(home, autostart=False) as client, Client(home, autostart=False) as news:
            _search(client, news, name)
    except Unreachable:
        return 0  # The next daemon starts the next searcher.
    return 0


def _search(client: Client, news: Client, name: str) -> None:
    news.send("follow", group=name)
    news.receive()  # From now on it is told of every change.
    [kept] = client.call("searches", name=name)["searches"]
    if kept["state"] != "running":
        return
    search = from_wire(name, kept["spec"])
    try:
        study = Study(
            client.home.root, name, dimensions(search.space), search.objectives,
            search.sampler, search.seed, acceptance(search.space, search.where),
        )  # fmt: skip
        searcher = Searcher(search, study, client.call)
        while not searcher.look():
            left_s = searcher.seconds_left()
            _hear(news, _LOOK_AGAIN_S if left_s is None else min(left_s, _LOOK_AGAIN_S))
    except StokerError as error:
        over = why_given_up(error)
        if not over:
            raise
        progress = {**kept["progress"], "over": over}
        client.call("search_told", name=name, progress=progress, ended=True)


def _hear(news: Client, longest_s: float) -> None:
    """Wait for a change, and take in all that have come."""
    try:
        news.receive(max(longest_s, 0.01))
        while news.has_line():
            news.receive()
    except NoAnswerYet:
        pass


def _end_with_daemon() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
