"""A task: a class of the user's for the points of a grid, and what a worker does for a point.

The worker makes the point's folder, so that what never started leaves none. Nothing is imported
here that only a submitter needs.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

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
        """The work; what it returns is the result of the point."""
        raise NotImplementedError


class TaskCall:
    """What a worker does for a point; see calling.py for `prepare` and `target`."""

    def __init__(self, task: Any, params: dict[str, Any], folder: str) -> None:
        self.target = task
        self._params = params
        self._folder = folder
        self._task: Task | None = None

    def prepare(self) -> Mapping[str, str]:
        """Make the folder and the task; the environment that it needs."""
        folder = Path(self._folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RESULT).unlink(missing_ok=True)  # A result of before is not this one's.
        shown = json.dumps(self._params, default=str, indent=2)
        (folder / PARAMS).write_text(shown + "\n", encoding="utf-8")
        found = imported(self.target)
        if not isinstance(found, type):
            return {}
        self._task = found(self._params, folder)
        return self._task.env()

    def __call__(self) -> Any:
        """Run the task, and put its result down in its folder."""
        if self._task is not None:
            value = self._task.run()
        else:
            value = imported(self.target)(**self._params)
        path = os.path.join(self._folder, RESULT)
        write_whole(path, pickled(value, type(value)), 0o666)
        return value


def imported(task: Any) -> Any:
    """The class or function itself; a name such as `my_task:MyTask` is imported only here."""
    if not isinstance(task, str):
        return task
    module, _, name = task.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
