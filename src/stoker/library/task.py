"""A task: a class of the user's for the points of a grid, and what a worker does for a point.

The worker makes the point's folder, so that what never started leaves none. Nothing is imported
here that only a submitter needs.

Law: one process at a time works in a folder, and only the one that does deletes a result there.
"""

from __future__ import annotations

import copy
import fcntl
import importlib
import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from stoker.errors import Failed
from stoker.library.calling import Call, following
from stoker.library.pickling import pickled
from stoker.wholefile import write_whole

RESULT = "result.pkl"
PARAMS = "params.json"


class Task:
    """One point of a grid: inherit from it and write `run`.

    `params` is the point, `folder` the directory for its results, which is there when `env` and
    `run` are called. Both are called in the job's own process.
    """

    options: ClassVar[dict[str, Any]] = {}  # of the job, e.g. {"gpus": 2}; run_grid may override

    def __init__(self, params: dict[str, Any], folder: Path) -> None:
        self.params = params
        self.folder = folder

    def env(self) -> Mapping[str, str]:
        """Environment variables that must be there before the process of `run` starts."""
        return {}

    def run(self) -> Any:
        """The work; what it returns is the result of the point.

        If the class has a method `checkpoint`, it is called on the signal that tells the job to
        make room, or that its time is over. What it returns (mostly self) is run in the next
        attempt, wherever that is: a task, or a call as a functools.partial.
        """
        raise NotImplementedError


class TaskCall:
    """What a worker does for a point; see calling.py for `prepare` and `target`."""

    _rerun = True  # what a call means that was queued by a version without this

    def __init__(self, task: Any, params: dict[str, Any], folder: str, rerun: bool = False) -> None:
        self.target = task
        self._params = params
        self._folder = folder
        self._rerun = rerun
        self._task: Any = None
        self._next: Call | None = None  # what a checkpoint has returned that is no task

    def prepare(self) -> Mapping[str, str]:
        """Make the folder and the task; the environment that it needs."""
        folder = Path(self._folder)
        folder.mkdir(parents=True, exist_ok=True)
        _have_alone(self._folder)
        if self._is_done():
            return {}
        (folder / RESULT).unlink(missing_ok=True)  # A result of before is not this one's.
        shown = json.dumps(self._params, default=str, indent=2)
        (folder / PARAMS).write_text(shown + "\n", encoding="utf-8")
        if self._next is not None:
            return {}
        if self._task is None:  # Else it is one that goes on.
            found = imported(self.target)
            if not isinstance(found, type):
                return {}
            self._task = found(self._params, folder)
        env: Mapping[str, str] = self._task.env()
        return env

    def __call__(self) -> Any:
        """Run the task, and put its result down in its folder."""
        _have_alone(self._folder)
        path = os.path.join(self._folder, RESULT)
        if self._is_done():
            with open(path, "rb") as file:
                return pickle.load(file)
        if self._next is not None:
            value = self._next()
        elif self._task is not None:
            value = self._task.run()
        else:
            value = imported(self.target)(**self._params)
        write_whole(path, pickled(value, type(value)), 0o666)
        return value

    def can_save(self) -> bool:
        """Whether it has a checkpoint."""
        if self._next is not None:
            return self._next.can_save()
        return hasattr(imported(self.target) if self._task is None else self._task, "checkpoint")

    def saved(self) -> TaskCall:
        """The same for what its checkpoint says is to be run next."""
        later = copy.copy(self)
        if self._next is not None:
            later._next = self._next.saved()
        elif self._task is None:
            later._next = Call(imported(self.target), (), self._params).saved()
        else:
            found = self._task.checkpoint()
            is_task = hasattr(found, "run") and hasattr(found, "env")
            later._task, later._next = (found, None) if is_task else (None, following(found))
        return later

    def _is_done(self) -> bool:
        """True if another job has come to a result since this one was queued."""
        return not self._rerun and os.path.exists(os.path.join(self._folder, RESULT))


_had: dict[str, int] = {}  # the folders that this process has alone, by the descriptor of each


def _have_alone(folder: str) -> None:
    """Keep others out of a folder until this process ends; refuse if one of them is in it.

    The daemon has one job for a point at a time. But an earlier one can be retried by hand, and
    another daemon may have been asked for the same folder.
    """
    if folder in _had:
        return
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise Failed(f"another job is running this point in {folder}", "wait for its end") from None
    except OSError:
        pass  # There are file systems on which a directory can't be locked.
    _had[folder] = fd


def imported(task: Any) -> Any:
    """The class or function itself; a name such as `my_task:MyTask` is imported only here."""
    if not isinstance(task, str):
        return task
    module, _, name = task.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
