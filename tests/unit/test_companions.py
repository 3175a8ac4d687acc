"""Starting what works beside a daemon."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from stoker.daemon import companions
from stoker_home import processes_with


def test_one_whose_end_could_not_be_heard_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(pid: int) -> int:
        raise OSError(24, "Too many open files")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "pidfd_open", fails)
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with pytest.raises(OSError, match="Too many open files"):
        companions.start_with_socket(waits, str(tmp_path))
    assert processes_with(f"STOKER_HOME={tmp_path}".encode()) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_hears_on_its_stdin_that_its_daemon_is_gone(tmp_path: Path) -> None:
    pidfd, line = companions.start_with_socket(["/bin/cat"], str(tmp_path))
    line.close()
    assert os.waitid(os.P_PIDFD, pidfd, os.WEXITED) is not None
    os.close(pidfd)
