"""What a worker makes of one test instance, in its first attempt and in a further one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gpu_task_scheduler.instance import FINISHED, SKIPPED, InstanceCall


class Noting:
    """A task that notes that it ran."""

    def __init__(self, config: dict[str, Any], work_dir: str) -> None:
        self._file = Path(work_dir, "ran")

    def required_env(self) -> dict[str, str]:
        return {"NEEDED": "1"}

    def main(self) -> None:
        with self._file.open("a") as file:
            file.write(os.environ["STOKER_ATTEMPT"])


def _attempt(
    monkeypatch: pytest.MonkeyPatch, number: int, folder: Path, *, force: bool = False
) -> str:
    monkeypatch.setenv("STOKER_ATTEMPT", str(number))
    call = InstanceCall(Noting, {}, str(folder), None, force)
    assert call.prepare() == ({} if call._task is None else {"NEEDED": "1"})
    return call()


def test_a_second_attempt_runs_the_test_in_the_folder_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "instance"
    for number in (1, 2, 3):
        assert _attempt(monkeypatch, number, folder) == FINISHED
    assert (folder / "ran").read_text() == "123"


def test_a_first_attempt_leaves_a_folder_of_before_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _attempt(monkeypatch, 1, tmp_path) == SKIPPED
    assert list(tmp_path.iterdir()) == []
    assert _attempt(monkeypatch, 1, tmp_path, force=True) == FINISHED


def test_a_first_attempt_that_never_made_its_folder_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _attempt(monkeypatch, 2, tmp_path / "instance") == FINISHED
