"""The process that stops a task whose scheduler died: that task, and no other process."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.cli.processtree import start_time
from stoker.compat.guardian import Guardian
from stoker_home import is_running
from waiting import PATIENCE_S


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process as a task's, where no daemon is to be had."""
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "home"))
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


def _guardian(directory: Path, pid: int, started: int) -> Guardian:
    """That of a task with this process, as its attempt's directory has it."""
    (directory / "pid").write_text(f"{pid} {started}", encoding="ascii")
    return Guardian(7, str(directory))


def test_a_task_is_stopped_though_there_is_no_daemon(
    tmp_path: Path, task: subprocess.Popen[bytes]
) -> None:
    started = start_time(task.pid)
    assert started is not None
    _guardian(tmp_path, task.pid, started)._stop()
    assert task.wait(PATIENCE_S) == -signal.SIGTERM


@pytest.mark.parametrize("ticks", [-1, 1])
def test_a_process_that_has_the_pid_of_a_task_that_ended_is_let_be(
    tmp_path: Path, task: subprocess.Popen[bytes], ticks: int
) -> None:
    started = start_time(task.pid)
    assert started is not None
    _guardian(tmp_path, task.pid, started + ticks)._stop()
    assert task.poll() is None and is_running(task.pid)


def test_a_pid_that_was_not_written_whole_stops_nothing(
    tmp_path: Path, task: subprocess.Popen[bytes]
) -> None:
    guardian = Guardian(7, str(tmp_path))
    for text in ("", str(task.pid), f"{task.pid} x", f"{task.pid} 1 2"):
        (tmp_path / "pid").write_text(text, encoding="ascii")
        guardian._stop()
    assert task.poll() is None and is_running(task.pid)
