"""The watch on processes that were adopted: by pidfd, or by looking where there is none."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from stoker.core import events as ev
from stoker.core.foreign import ForeignProcess
from stoker.daemon.awaited_processes import identified
from stoker.executors.foreign import ENDED, ForeignProcesses
from waiting import eventually

KEY = (7, 1)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=-1, stdout=-3) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("refused", [0, errno.EPERM, errno.EMFILE])
def test_its_end_is_seen_whether_or_not_there_are_pidfds(
    process: subprocess.Popen[bytes], refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = identified(str(process.pid), "", "").kept
    before = len(os.listdir("/proc/self/fd"))

    def no_pidfd(pid: int, flags: int = 0) -> int:
        raise OSError(refused, os.strerror(refused))

    if refused:
        monkeypatch.setattr(os, "pidfd_open", no_pidfd)
    told: list[ev.AttemptVanished] = []
    watched = ForeignProcesses(told.append)
    assert watched.watch(KEY, kept, 1_000)
    assert (KEY in watched, watched.roots()) == (True, {process.pid: 7})
    assert (watched.next_wakeup_ms() is None) == (refused == 0)
    assert watched.look(5_000) == [] and not told
    process.kill()
    later_ms = count(10_000, 1_000)
    eventually(lambda: watched.look(next(later_ms)) == [7], "its end is seen")
    assert [(one.job_id, one.attempt, one.why) for one in told] == [(*KEY, ENDED)]
    assert KEY not in watched and not watched
    watched.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("other", [{"boot": "another"}, {"start_time": 1}, {"pid": 2**22 + 1}])
def test_after_a_reboot_or_where_another_has_its_pid_it_has_ended(
    process: subprocess.Popen[bytes], other: dict[str, Any]
) -> None:
    me: ForeignProcess = identified(str(process.pid), "", "")
    told: list[ev.AttemptVanished] = []
    watched = ForeignProcesses(told.append)
    assert not watched.watch(KEY, me._replace(**other).kept, 1_000)
    assert told == [ev.AttemptVanished(1_000, *KEY, ENDED)] and KEY not in watched
    watched.close()


def test_what_is_let_go_is_neither_watched_nor_signalled(process: subprocess.Popen[bytes]) -> None:
    told: list[ev.AttemptVanished] = []
    watched = ForeignProcesses(told.append)
    watched.watch(KEY, identified(str(process.pid), "", "").kept, 1_000)
    watched.let_go(KEY, 2_000)
    assert KEY not in watched and [one.at_ms for one in told] == [2_000]
    assert process.poll() is None
    watched.close()
