"""Running a task on all points of a grid, each in a folder of its own.

A point that has succeeded has its result in its folder, and is not run again unless asked for. One
that is queued or running is waited for, whichever program has queued it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from stoker.errors import UsageError
from stoker.library.arguments import parameters
from stoker.library.channel import Draft, channel
from stoker.library.executor import check_call, full_name_of, going_on, label_of, title_of
from stoker.library.futures import JobFuture
from stoker.library.grids import folder_name
from stoker.library.pickling import pickled_call
from stoker.library.task import RESULT, TaskCall
from stoker.submission.keywords import call_fields, check_keywords

if TYPE_CHECKING:
    from typing import Unpack

    from stoker.api.job_keywords import JobOptions


def run_grid(
    task: Any,
    points: Iterable[Mapping[str, Any]],
    *,
    folder: str | os.PathLike[str] = "results",
    rerun: bool = False,
    **options: Unpack[JobOptions],
) -> list[JobFuture[Any]]:
    """Run a task on every point; the futures, in the order of the points.

    `task` is a subclass of Task, a function that takes the parameters as keywords, or the name of
    either ("my_task:MyTask"), which is then imported by the jobs alone. Points that have succeeded
    before are not run again, unless `rerun` is true: their futures are done from the start. Points
    that are queued or running get no second job: their futures are those of the jobs they have.
    `options` are those of `stoker add`.
    """
    check_task(task)
    check_keywords(options, run_grid)
    root = os.path.abspath(folder)
    common = getattr(task, "options", {}) if isinstance(task, type) else {}
    base = call_fields({**common, **options})
    known: dict[str, JobFuture[Any]] = {}
    drafts: dict[str, Draft] = {}
    order: list[str] = []
    for point in points:
        params = dict(point)
        path = os.path.join(root, folder_name(params))
        order.append(path)
        if path in known or path in drafts:
            continue  # The same point twice is run once.
        if not rerun and os.path.exists(os.path.join(path, RESULT)):
            known[path] = done_before(path)
            continue
        if not isinstance(task, str | type):
            check_call(task, (), params)
        call = pickled_call(TaskCall(task, params, path, rerun), task)
        shown = parameters(params)
        values = ",".join(f"{name}={value}" for name, value in shown.items())
        fields = {
            "name": label_of(f"{title(task)} {values}"),
            **base,
            "params": shown,
            "point": _point_name(path),
        }
        signals: tuple[int, ...] = ()
        if isinstance(task, str) or hasattr(task, "checkpoint"):
            fields, signals = going_on(fields)
        result = os.path.join(path, RESULT)
        drafts[path] = Draft(call, fields, full_name(task), result=result, signals=signals)
    futures = channel().submit(list(drafts.values())) if drafts else []
    known |= dict(zip(drafts, futures, strict=True))
    return [known[path] for path in order]


def _point_name(folder: str) -> str:
    """What two programs call the point of one folder; the daemon has one job for it at a time."""
    return "grid:" + hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:32]


def title(task: Any) -> str:
    """What the jobs of a task are called."""
    return task.partition(":")[2] if isinstance(task, str) else title_of(task)


def full_name(task: Any) -> str:
    """The kind of its jobs: what the task is called, with its module."""
    return task.replace(":", ".") if isinstance(task, str) else full_name_of(task)


def check_task(task: Any) -> None:
    """Refuse what can't be a task."""
    if isinstance(task, str):
        module, colon, name = task.partition(":")
        if not (module and colon and name):
            raise UsageError(
                f"{task!r} does not name a task", "write module:Class, e.g. my_task:MyTask"
            )
    elif isinstance(task, partial) or not callable(task):
        raise UsageError(f"{task!r} is not a task", "give a subclass of stoker.Task, or a function")


def done_before(path: str) -> JobFuture[Any]:
    """The future of a point that had its result before."""
    future: JobFuture[Any] = JobFuture()
    future.folder = path
    try:
        with open(os.path.join(path, RESULT), "rb") as file:
            future.resolve_value(pickle.load(file))
    except Exception as error:
        error.add_note(f"the result in {path} can't be read; rerun=True runs the point again")
        future.resolve_error(error)
    return future
