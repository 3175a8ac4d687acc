"""What Stoker's worker does for one test instance; a scheduler's needs are not imported here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from stoker.library.task import imported

FINISHED = "finished"
SKIPPED = "skipped"


_INTERRUPTED = ".interrupted"


def note_interrupted(work_dir: str) -> None:
    """Let an instance that was stopped be run again, though it has its folder."""
    try:
        with open(os.path.join(work_dir, _INTERRUPTED), "x"):
            pass
    except OSError:
        pass  # It had not begun, or its folder is gone.


def was_interrupted(work_dir: str) -> bool:
    """Whether an instance was stopped, and has not been run since."""
    return os.path.exists(os.path.join(work_dir, _INTERRUPTED))


class InstanceCall:
    """A test instance on its way to its worker; see stoker.library.calling for the two steps."""

    def __init__(
        self,
        task_class: Any,
        config: dict[str, Any],
        work_dir: str,
        log_file: str | None,
        force_rerun: bool,
    ) -> None:
        self.target = task_class  # a class, or the name of one that only the worker imports
        self._config = config
        self._work_dir = work_dir
        self._log_file = log_file
        self._force_rerun = force_rerun
        self._task: Any = None

    def prepare(self) -> Mapping[str, str]:
        """Make the result folder and the task; the environment that the task requires."""
        # The folder of a further attempt is that of the first.
        first = os.environ.get("STOKER_ATTEMPT", "1") == "1"
        again = self._force_rerun or not first or _taken_up(self._work_dir)
        try:
            os.makedirs(self._work_dir, exist_ok=again)
        except FileExistsError:
            return {}
        if self._log_file is not None:
            _print_to(os.path.join(self._work_dir, self._log_file))
        self._task = imported(self.target)(self._config, self._work_dir)
        required: Mapping[str, str] = self._task.required_env()
        return required

    def __call__(self) -> str:
        """Run the test."""
        if self._task is None:
            print(f"{self._work_dir} exists already")
            return SKIPPED
        self._task.main()
        return FINISHED


def _taken_up(work_dir: str) -> bool:
    """Whether the instance was interrupted, and this worker is the first to run it again."""
    try:
        os.unlink(os.path.join(work_dir, _INTERRUPTED))
    except OSError:
        return False
    return True


def _print_to(path: str) -> None:
    """Let all output of this process, and of its children, go to a file."""
    print(f"the output is in {os.path.abspath(path)}", flush=True)
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND, 0o666)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
