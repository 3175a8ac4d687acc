"""The searcher's process: `python -m stoker.search.main HOME NAME`, started by the daemon.

It may be killed at any moment: see `reconcile`. It ends with the daemon, at the latest when its
stdin, the daemon's line to it, is closed.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time

from stoker.api.client import Client, NoAnswerYet
from stoker.api.paths import Home
from stoker.errors import StokerError, Unreachable
from stoker.metrics.lookup import Lookup
from stoker.search.searcher import Searcher, why_given_up
from stoker.search.space import acceptance, dimensions
from stoker.search.spec import from_wire
from stoker.search.stopping import LOOK_EVERY_S, EarlyStops
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
            search.sampler, search.seed, acceptance(search.space, search.where), search.stopping,
            search.begun,
        )  # fmt: skip
        stops = None
        if search.stopping is not None:
            metrics, metric = Lookup(f"{client.home.root}/metrics.db"), search.objectives[0].name
            stops = EarlyStops(search.stopping, metric, study, client.call, metrics)
        over = kept["progress"].get("over", "")
        searcher = Searcher(search, study, client.call, stops, over)
        while not searcher.look():
            ends_s = searcher.seconds_left()
            longest_s = _LOOK_AGAIN_S if ends_s is None else min(ends_s, _LOOK_AGAIN_S)
            until_s, heard = time.monotonic() + max(longest_s, 0.01), False
            while not heard and (left_s := until_s - time.monotonic()) > 0:
                if stops is not None and searcher.running:
                    stops.look(searcher.running, searcher.attempts)
                    left_s = min(left_s, LOOK_EVERY_S)
                heard = _hears(news, left_s)
    except StokerError as error:
        over = why_given_up(error)
        if not over:
            raise
        progress = {**kept["progress"], "over": over}
        client.call("search_told", name=name, progress=progress, ended=True)


def _hears(news: Client, longest_s: float) -> bool:
    """Wait for a change, and take in all that have come; False if none came."""
    try:
        news.receive(max(longest_s, 0.01))
        while news.has_line():
            news.receive()
    except NoAnswerYet:
        return False
    return True


def _end_with_daemon() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
