"""The daemon by its lock: asked for by many at once, and told by its pid."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from stoker.api.holder import holder, put_down
from stoker.api.paths import Home


def test_somebody_who_asks_who_has_the_lock_is_not_taken_for_a_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(str(tmp_path))
    Path(home.lock).touch()
    flock, others = fcntl.flock, []

    def in_the_midst(fd: int, operation: int) -> None:
        flock(fd, operation)
        monkeypatch.setattr(fcntl, "flock", flock)
        others.append(holder(home))  # Another one asks while the first one looks.

    monkeypatch.setattr(fcntl, "flock", in_the_midst)
    assert holder(home) is None and others == [None]


def test_a_lock_names_its_holder_whatever_the_pid_of_the_one_before(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    Path(home.lock).write_text(f"{2**22 - 1}{os.getpid()}\n")
    with open(home.lock, "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        put_down(lock.fileno())
        assert holder(home) == os.getpid()
        assert Path(home.lock).read_text() == f"{os.getpid()}\n"
