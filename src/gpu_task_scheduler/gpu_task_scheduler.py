"""The scheduler's class: test instances become jobs of Stoker, and its log tells of each."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any

from gpu_task_scheduler.config_manager import ConfigManager
from gpu_task_scheduler.instance import (
    SKIPPED,
    InstanceCall,
    note_interrupted,
    was_interrupted,
)
from gpu_task_scheduler.lanes import Lane, lanes
from stoker.api.client import Client
from stoker.compat.lent_gpus import Lent
from stoker.errors import UsageError
from stoker.library.calls import Calls
from stoker.library.channel import Draft, channel
from stoker.library.executor import label_of
from stoker.library.futures import JobFuture
from stoker.library.pickling import pickled_call
from stoker.library.run_grid import check_task, full_name, title
from stoker.submission.keywords import job_fields
from stoker.text.terminal import say

log = logging.getLogger("gpu_task_scheduler")


@dataclass
class _Run:
    """One call of `start`."""

    calls: Calls
    done: SimpleQueue[tuple[Lane, JobFuture[str]]] = field(default_factory=SimpleQueue)
    running: set[JobFuture[str]] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    folders: dict[JobFuture[str], str] = field(default_factory=dict)


class GPUTaskScheduler:
    """Runs a task class on all test instances of a configuration.

    `gpu_task_class` is a subclass of GPUTask, or the name of one ("my_gpu_task:MyGPUTask"), which
    is then imported by the workers alone.
    """

    def __init__(self, config: Mapping[str, Any], gpu_task_class: Any) -> None:
        check_task(gpu_task_class)
        try:
            self._config_manager = ConfigManager(config)
        except ValueError as error:
            say(f"gpu_task_scheduler: {error}")
            raise SystemExit(1) from None
        self._config = self._config_manager.get_all_scheduler_config()
        self._gpu_task_class = gpu_task_class

    def start(self) -> list[str]:
        """Run the test instances that have no result folder yet; the names of those that failed."""
        with self._logging(), self._lent_gpus():
            run = _Run(channel().calls_in(os.path.abspath(self._config["temp_folder"])))
            try:
                self._run(run)
            except BaseException:
                _call_off(run)
                raise
            finally:
                run.calls.close()
        return run.failed

    @contextmanager
    def _lent_gpus(self) -> Iterator[None]:
        """The GPUs that are named; one that does not exist is a line, and ends the program."""
        named = [gpu for lane in lanes(self._config["gpu"]) for gpu in lane.fields.get("on", ())]
        try:
            with Client() as client:
                lent = Lent(client, named)
        except UsageError as error:
            log.error("%s; %s", error.message, error.hint)
            raise SystemExit(1) from None
        try:
            yield
        finally:
            lent.give_back()

    def _run(self, run: _Run) -> None:
        places = lanes(self._config["gpu"])
        left = {id(lane): self._fill(lane, run) for lane in places}
        for lane in places:
            if not left[id(lane)]:
                _is_finished(lane)
        while run.running:
            lane, future = run.done.get()
            run.running.discard(future)
            left[id(lane)] += self._fill(lane, run) - 1
            if not left[id(lane)]:
                _is_finished(lane)

    def _fill(self, lane: Lane, run: _Run) -> int:
        """Queue the next test instance, or all of them, for a lane; how many."""
        left = self._config_manager.get_num_left_config()
        drafts: deque[tuple[str, str, Draft]] = deque()
        while left and (lane.width is None or len(drafts) < lane.width):
            left -= 1
            instance = self._config_manager.get_next_config()
            name = instance["test_config_string"]
            folder = instance["work_dir"]
            if os.path.exists(folder) and not (
                self._config["force_rerun"] or was_interrupted(folder)
            ):
                log.info("skips task %s: its result folder exists", name)
                continue
            drafts.append((name, folder, self._draft(instance, lane)))
        if not drafts:
            return 0
        futures = channel().submit([draft for *_, draft in drafts], run.calls)
        run.running.update(futures)
        for (name, folder, _), future in zip(drafts, futures, strict=True):
            run.folders[future] = folder
            future.add_done_callback(partial(_ended, run, lane, name))
        return len(drafts)

    def _draft(self, instance: dict[str, Any], lane: Lane) -> Draft:
        name = instance["test_config_string"]
        log_file = self._config["log_file"]
        call = InstanceCall(
            self._gpu_task_class,
            instance["config"],
            instance["work_dir"],
            log_file,
            bool(self._config["force_rerun"]),
        )
        fields = {
            "name": label_of(name) or title(self._gpu_task_class),
            # Figures go to files; a task that wants to show them says so in required_env.
            "env": {"MPLBACKEND": "Agg"},
            **job_fields({"params": instance["config"]}),
            **lane.fields,
        }
        return Draft(
            pickled_call(call, self._gpu_task_class),
            fields,
            full_name(self._gpu_task_class),
            None if log_file is None else os.path.abspath(_log_path(instance, log_file)),
            lambda future: log.info("%s receives task %s", _worker(future), name),
        )

    # --- the scheduler's own log ---

    @contextmanager
    def _logging(self) -> Iterator[None]:
        """Log to the console, and to the file that the configuration names."""
        text = "%(asctime)s %(levelname)s %(message)s"
        handlers: list[logging.Handler] = [logging.StreamHandler()]
        path = self._config["scheduler_log_file_path"]
        if path is not None:
            handlers.append(logging.FileHandler(path, encoding="utf-8"))
        for handler in handlers:
            handler.setFormatter(logging.Formatter(text, "%a, %d %b %Y %H:%M:%S"))
            log.addHandler(handler)
        level, propagate = log.level, log.propagate
        log.setLevel(logging.INFO)
        log.propagate = False
        try:
            yield
        finally:
            log.setLevel(level)
            log.propagate = propagate
            for handler in handlers:
                log.removeHandler(handler)
                handler.close()


def _ended(run: _Run, lane: Lane, name: str, future: Future[str]) -> None:
    """Tell the log of it as it happens, so that its lines are in the order of things."""
    assert isinstance(future, JobFuture)
    worker = _worker(future)
    problem = "its job was cancelled" if future.cancelled() else future.exception()
    if future.cancelled() and not future.gpus:
        run.failed.append(name)
        log.info("task %s was not started: its job was cancelled", name)
    elif problem is not None:
        run.failed.append(name)
        kind = f"{type(problem).__name__}: " if isinstance(problem, Exception) else ""
        log.error("%s fails task %s: %s%s", worker, name, kind, str(problem).partition("\n")[0])
    elif future.result() == SKIPPED:
        log.info("%s skips task %s: its result folder exists", worker, name)
    else:
        log.info("%s finishes task %s", worker, name)
    run.done.put((lane, future))


def _is_finished(lane: Lane) -> None:
    for ids in lane.entries:
        log.info("gpu%s finished", ids)


def _call_off(run: _Run) -> None:
    """Ctrl-C, say: cancel what is queued and what runs, and see it end."""
    job_ids = [future.job_id for future in run.running if future.job_id is not None]
    if job_ids:
        stopped = set(channel().cancel(job_ids))
        channel().wait_until_ended(set(job_ids))
        for future, folder in run.folders.items():
            if future.job_id in stopped:
                note_interrupted(folder)


def _worker(future: JobFuture[str]) -> str:
    return f"gpu{','.join(future.gpus)}"


def _log_path(instance: dict[str, Any], log_file: str) -> str:
    return os.path.join(instance["work_dir"], log_file)
