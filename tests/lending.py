"""One daemon for many tests of a worker, one after the other: to start it takes longer than most.

Law: whoever borrows it finds it as new, but that job ids go on counting. What a test has set is put
back; a daemon that was killed, or is not as it was for all that, or was with a test that failed, is
not lent again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stoker.command_lines import READER
from stoker.errors import StokerError
from stoker_home import FINAL, StokerHome
from waiting import eventually

GPUS = "0-3"
IDS_GONE = 20
# What takes longer than this to end, ends with its daemon.
TIDY_WITHIN_S = 30.0


class Lender:
    """Has the daemon between the tests."""

    def __init__(self, directory: Path) -> None:
        self.started = 0  # so many daemons
        self._directory = directory
        self._environment = dict(os.environ)
        self._owned: StokerHome | None = None
        self._as_new: dict[str, Any] = {}
        self._next_id = 1

    def lend(self, root: Path) -> StokerHome:
        """A Stoker with four GPUs, whose files but its state are the test's own."""
        owned = self._owned or self._new()
        lent = StokerHome(root)
        lent.home = owned.home
        lent.env["STOKER_HOME"] = lent.home.root
        lent.first_id = self._next_id
        return lent

    def take_back(self, *, spoilt: bool = False) -> None:
        """Keep it for the next one, if it is as it was."""
        owned = self._owned
        if owned is None:
            return
        try:
            if not spoilt and self._is_as_new(owned):
                return
        except (StokerError, OSError, AssertionError):
            pass  # It does not answer, or something of the test does not end.
        self.close()

    def close(self) -> None:
        """End it."""
        owned, self._owned = self._owned, None
        if owned is not None:
            owned.clean_up()

    def _new(self) -> StokerHome:
        self.started += 1
        place = self._directory / str(self.started)
        place.mkdir()
        owned = StokerHome(place)
        try:
            # It outlives the test that happens to be the first, so it is not for that one to say
            # what is in its environment.
            with _environment(self._environment):
                owned.start(gpus=GPUS)
            # A test that counts on its first job being number 1 fails always, and not only where
            # another one was here before.
            owned.submit_all([{"argv": ["true"], "hold": True}] * IDS_GONE)
            self._next_id = 1 + _without_jobs(owned, _processes(owned))
            self._as_new = _condition(owned)
        except BaseException:
            owned.clean_up()
            raise
        self._owned = owned
        return owned

    def _is_as_new(self, owned: StokerHome) -> bool:
        if owned.daemon_pid() not in self._as_new["pids"] or owned.call("page_status")["running"]:
            return False
        self._next_id = 1 + _without_jobs(owned, self._as_new["pids"])
        self._put_back(owned)
        return _condition(owned) == self._as_new

    def _put_back(self, owned: StokerHome) -> None:
        owned.call("resume")
        for group in owned.call("groups")["groups"]:
            owned.call("resume", group=group["group"])
            owned.call("limit_group", group=group["group"], max_running=None)
        settings = owned.call("config_get")["settings"]
        for was, now in zip(self._as_new["settings"], settings, strict=True):
            if now != was:
                value = None if was["value"] == was["default"] else was["value"]
                owned.call("config_set", name=was["name"], value=value)
        drained = [g["id"] for g in owned.call("gpus")["gpus"] if g["state"] == "drained"]
        if drained:
            owned.call("gpu_resume", gpus=drained)


def _processes(home: StokerHome) -> list[int]:
    """All but the reader of metrics, which waits for the next job whose metrics are asked for."""
    return [pid for pid in home.processes() if READER not in _command_line(pid)]


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    return ""


def _without_jobs(home: StokerHome, spared: Sequence[int]) -> int:
    """Let nothing be left of its jobs, nor of whoever else is not spared; the id of the last."""
    last_id = home.submit("true", hold=True)
    home.call("cancel", select={"all": True})

    def all_over() -> bool:
        # Neither a job that does not heed its end nor a command line is given time.
        others = [pid for pid in _processes(home) if pid not in spared]
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not others and not _unfinished(home)

    eventually(all_over, "all jobs have ended", TIDY_WITHIN_S)
    home.call("remove", select={"all": True})
    return last_id


def _unfinished(home: StokerHome) -> list[str]:
    counts = home.call("status")["counts"]
    return [state for state, count in counts.items() if count and state not in FINAL]


def _condition(home: StokerHome) -> dict[str, Any]:
    """All by which a test could tell that somebody was here before."""
    status = home.call("status")
    return {
        "pids": sorted(_processes(home)),
        "counts": status["counts"],
        "paused": status["paused"],
        "cpus": status["cpus"],
        "gpus": status["gpus"],
        "groups": home.call("groups")["groups"],
        "settings": home.call("config_get")["settings"],
        "page": home.call("page_status"),
        "profiles": home.call("profiles")["profiles"],
    }


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    kept = dict(os.environ)
    try:
        _set_environment(wanted)
        yield
    finally:
        _set_environment(kept)


def _set_environment(wanted: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)
