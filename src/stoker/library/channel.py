"""The way of this process to one Stoker: calls become jobs, and their ends resolve futures.

Law: a future is in `_live` from its submission until its job is final, and is resolved exactly
once, whatever becomes of the daemon meanwhile. As long as it is there its result is asked for (see
call_files.py). What may have been queued keeps its files.
"""

from __future__ import annotations

import atexit
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from stoker import command_lines
from stoker.api.client import Client
from stoker.api.localstate import prepare
from stoker.api.paths import Home
from stoker.call_files import Asked
from stoker.core.model import FINAL, JobState
from stoker.errors import Failed, NotFound, StokerError, UsageError
from stoker.library.calls import (
    Calls,
    Result,
    clear_after_others,
    read_result,
    succeeded_attempt,
)
from stoker.library.connection import Connection, whole_answers
from stoker.library.failures import JobFailed, tail_of
from stoker.library.follower import Follower
from stoker.library.forms import runs_of
from stoker.library.futures import JobFuture
from stoker.submission.keywords import Fields
from stoker.submission.surroundings import note_commits, surroundings

_MOST_AT_ONCE = 2000
_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
_UNFINISHED = [state.value for state in JobState if state not in FINAL]


@dataclass(slots=True)
class Draft:
    """A call that is to become a job."""

    call: bytes
    fields: Fields
    full_name: str  # what is called, with its module; jobs with the same one are of one kind
    log_path: str | None = None  # where it will print, if not to the job's own log
    on_started: Callable[[JobFuture[Any]], None] | None = None
    warm: str | None = None  # the modules that its process has from the start; None: not warm
    result: str | None = None  # of a point: the file of its value, whichever job has made it
    signals: tuple[int, ...] = ()  # that may find a checkpoint in it


@dataclass(slots=True)
class _Live:
    """A job that has not ended, as far as we know."""

    future: JobFuture[Any]
    calls: Calls | None  # None: it is the job of another program, and so are its files
    asked: Asked | None  # by which its result is asked for
    file: str
    group: str
    result: str | None = None  # see Draft
    claimed: bool = False  # a thread is resolving it


class Channel:
    """Submits, follows and resolves; all threads of the process share it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        prepare(home)
        # Where machines share a home, it is there, so that the nodes of a cluster find the calls.
        root = os.path.realpath(os.path.join(home.root, "calls"))
        self.calls = Calls(root)
        self._client = Connection(home)
        self._requests = threading.RLock()  # one order at a time on the connection
        self._follower = Follower(home, self)
        self._changed = threading.Condition()
        self._live: dict[int, _Live] = {}
        self._submitting = 0
        self._early: dict[int, list[dict[str, Any]]] = {}  # events of jobs not known yet
        self._asked: dict[str, Asked] = {}  # of other programs, by their directories

    @property
    def default_group(self) -> str:
        """The group of calls that name none."""
        return f"python-{self.calls.name}"

    def calls_in(self, folder: str) -> Calls:
        """A place of their own for some calls, in a folder that the user named."""
        clear_after_others(folder, self)
        return Calls(folder, keeps=False)

    def forked(self) -> None:
        """In a child: what is asked for is asked for by its parent."""
        for asked in (self.calls.asked, *self._asked.values()):
            asked.close()

    # --- orders ---

    def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """One order to the daemon, and its answer."""
        with self._requests, whole_answers(self._client):
            return self._client.call(op, **fields)

    def tidy_up(self, op: str, **fields: Any) -> None:
        """An order that is no reason to start a daemon, nor for anything to fail."""
        with suppress(StokerError, OSError), Client(self.home, autostart=False) as client:
            client.call(op, **fields)

    def submit(self, drafts: Sequence[Draft], calls: Calls | None = None) -> list[JobFuture[Any]]:
        """Queue calls, all or none; their futures.

        A point that has a job already, queued or running, gets no other one: its future is that of
        this job, whichever program has queued it.
        """
        calls = calls or self.calls
        common = surroundings()
        if any(draft.result is not None for draft in drafts):
            common["rerun"] = "all"  # But for points whose job has not ended.
        futures: list[JobFuture[Any]] = []
        with self._changed:
            before = set(self._live)  # Points may be adopted from an earlier call of ours, too.
        try:
            for first in range(0, len(drafts), _MOST_AT_ONCE):
                futures += self._submit(drafts[first : first + _MOST_AT_ONCE], calls, common)
        except BaseException:
            with self._changed:
                own = {job_id for job_id, live in self._live.items() if live.calls is calls}
            if queued := own.intersection(future.job_id or 0 for future in futures) - before:
                self.cancel(sorted(queued))
            raise
        return futures

    def _submit(
        self, drafts: Sequence[Draft], calls: Calls, common: Fields
    ) -> list[JobFuture[Any]]:
        files: list[str] = []
        token, ordered = os.urandom(16).hex(), False
        try:
            files.extend(calls.write(draft.call, draft.signals) for draft in drafts)
            groups = [draft.fields.get("group") or self.default_group for draft in drafts]
            calls.note_groups(groups)
            since = min(self._follower.follow(group) for group in dict.fromkeys(groups))
            jobs = [
                {"argv": worker_words(file, one.full_name, one.warm), **one.fields, "group": group}
                for one, file, group in zip(drafts, files, groups, strict=True)
            ]
            with self._changed:
                self._submitting += 1
            try:
                ordered = True
                note_commits(jobs, common)
                ids = self.request("submit", jobs=jobs, token=token, **common)["ids"]
                queued = self._queued(ids, jobs)
                new = [(drafts[place], files[place], groups[place]) for place in queued]
                futures = dict(zip(queued, self._register(ids, new, calls), strict=True))
            finally:
                with self._changed:
                    self._submitting -= 1
                    if not self._submitting:
                        self._early.clear()
        except BaseException as error:
            if ordered and not isinstance(error, Exception):
                self._call_off(jobs=jobs, token=token, **common)
            # All other errors may come after the daemon has queued what it was given.
            if not ordered or isinstance(error, UsageError | NotFound):
                for file in files:
                    calls.forget(file)
            raise
        calls.note_jobs([files[place] for place in queued], ids)
        self._follower.still_heard(since)
        if others := [place for place in range(len(drafts)) if place not in futures]:
            for place in others:
                calls.forget(files[place])
            adopted = self._adopt([drafts[place] for place in others], calls, common)
            futures |= zip(others, adopted, strict=True)
        return [futures[place] for place in range(len(drafts))]

    def _queued(self, ids: list[int], jobs: list[Fields]) -> Sequence[int]:
        """The places of the jobs that were queued as these."""
        if len(ids) == len(jobs):
            return range(len(jobs))
        known = set(ids)
        points = {job["point"] for job in self._jobs(ids) if job["id"] in known}
        return [place for place, job in enumerate(jobs) if job["point"] in points]

    def _call_off(self, **submission: Any) -> None:
        """Ctrl-C came before the answer: the daemon knows by its token what it has queued."""
        with suppress(StokerError, OSError), Client(self.home, autostart=False) as client:
            ids = client.call("submit", **submission)["ids"]
            client.call("cancel", select={"ids": [str(job_id) for job_id in ids]})

    def _register(
        self, ids: list[int], new: list[tuple[Draft, str, str]], calls: Calls
    ) -> list[JobFuture[Any]]:
        futures = []
        early: list[dict[str, Any]] = []
        with self._changed:
            for job_id, one in zip(ids, new, strict=True):
                futures.append(self._begin(job_id, *one, calls, calls.asked))
                early += self._early.pop(job_id, [])
        for event in early:
            self.hear(event)
        return futures

    def _begin(
        self,
        job_id: int,
        draft: Draft | None,
        file: str,
        group: str,
        calls: Calls | None,
        asked: Asked | None,
    ) -> JobFuture[Any]:
        future: JobFuture[Any] = JobFuture(self)
        future.job_id = job_id
        result = None
        if draft is not None:
            future.log_path, future.on_started = draft.log_path, draft.on_started
            result = draft.result
        self._live[job_id] = _Live(future, calls, asked, file, group, result)
        return future

    def _adopt(self, drafts: list[Draft], calls: Calls, common: Fields) -> list[JobFuture[Any]]:
        """The futures of points that have a job of before, which had not ended."""
        points = [draft.fields["point"] for draft in drafts]
        known = self.request("points", points=points)["points"]
        jobs = {job["id"]: job for job in self._jobs([one["id"] for one in known.values()])}
        alone = {name: value for name, value in common.items() if name != "rerun"}
        found = []
        for draft, point in zip(drafts, points, strict=True):
            job = jobs.get(known[point]["id"]) if point in known else None
            if job is None:  # It has ended, and was removed.
                found += self._submit([draft], calls, common)
            elif job["state"] in (JobState.STOPPING, JobState.CANCELLED):
                # It will give no value. Another one begins when its last process has gone.
                after = [*draft.fields.get("after_any", ()), str(job["id"])]
                later = replace(draft, fields={**draft.fields, "after_any": after})
                found += self._submit([later], calls, alone)
            else:
                found += self.attach([job], draft)
        return found

    def attach(self, jobs: Sequence[Fields], draft: Draft | None = None) -> list[JobFuture[Any]]:
        """The futures of jobs of before, whichever program has queued them."""
        found, ended = [], []
        for job in jobs:
            call, group = command_lines.call_of(job["argv"]), job["group"] or ""
            file = call[2] if call else ""
            if job["state"] not in FINAL:
                self._follower.follow(group)
            with self._changed:
                live = self._live.get(job["id"])
                if live is None:
                    asked = self._ask_for(file)
                    self._begin(job["id"], draft, file, group, None, asked)
                    live = self._live[job["id"]]
            found.append(live.future)
            if job["state"] in FINAL:
                ended.append((live, job))
        for live, job in ended:
            self._resolve(live, job)
        if len(ended) < len(jobs):
            self._follower.still_heard(-1)  # They may have started, or ended, before we listened.
        return found

    def _ask_for(self, file: str) -> Asked | None:
        """Ask for the result of a call of another program."""
        directory = os.path.dirname(file)
        try:
            if directory not in self._asked:
                self._asked[directory] = Asked(directory)
        except OSError:
            return None  # Its files are gone.
        self._asked[directory].ask(file)
        return self._asked[directory]

    def cancel(self, job_ids: list[int]) -> list[int]:
        """Cancel jobs; those that had not ended yet."""
        try:
            answer = self.request("cancel", select={"ids": [str(i) for i in job_ids]})
        except (Failed, NotFound):
            return []  # All of them have ended.
        ids: list[int] = answer["ids"]
        return ids

    def job(self, job_id: int) -> dict[str, Any]:
        """All that is known of a job."""
        jobs: list[dict[str, Any]] = self.request("show", select={"ids": [str(job_id)]})["jobs"]
        return jobs[0]

    def unfinished(self) -> list[int]:
        """The jobs of this process that have not ended."""
        with self._changed:
            return list(self._live)

    def wait_until_ended(self, job_ids: set[int]) -> None:
        """Return when none of these jobs is left, the processes of cancelled ones included."""
        with self._changed:
            self._changed.wait_for(lambda: not any(job_id in self._live for job_id in job_ids))

    # --- what the follower tells ---

    def waits(self) -> bool:
        """True while a future is not resolved, or a cancelled job has not ended."""
        with self._changed:
            return bool(self._live)

    def hear(self, event: dict[str, Any]) -> None:
        """A job started or ended."""
        with self._changed:
            live = self._live.get(event["id"])
            if live is None:
                if self._submitting:
                    self._early.setdefault(event["id"], []).append(event)
                return
        if event["event"] == "started":
            live.future.resolve_started(tuple(event["gpus"]))
        elif event["final"]:
            self._resolve(live, event)
        else:
            live.future.resolve_waiting()

    def catch_up(self) -> None:
        """Ask for what was missed."""
        with self._changed:
            live = dict(self._live)
        found: dict[int, dict[str, Any]] = {}
        for group in dict.fromkeys(one.group for one in live.values()):
            found |= {job["id"]: job for job in self._jobs_of(group)}
        # The others were moved to another group, or removed.
        found |= {job["id"]: job for job in self._jobs([i for i in live if i not in found])}
        for job_id, one in live.items():
            self._compare(job_id, one, found.get(job_id))

    def _compare(self, job_id: int, live: _Live, job: dict[str, Any] | None) -> None:
        if job is None:
            # Only finished jobs can be removed, so it has ended; how is not known any more.
            known = succeeded_attempt(live.file)
            job = {"id": job_id, "state": "lost", "reason": "it was removed", "attempt": known}
        if job["state"] in FINAL:
            self._resolve(live, job)
        elif job["state"] == JobState.RUNNING and not live.future.running():
            live.future.resolve_started(tuple(job["gpus"]))

    def give_up(self, error: StokerError) -> None:
        """The daemon does not come back: no news of these jobs will arrive."""
        with self._changed:
            abandoned, self._live = self._live, {}
            self._changed.notify_all()
        for live in abandoned.values():
            live.future.resolve_error(error)

    def _jobs_of(self, group: str, states: Sequence[str] = ()) -> list[dict[str, Any]]:
        return self._listed({"group": group}, states=list(states), all=True)

    def _jobs(self, job_ids: list[int]) -> list[dict[str, Any]]:
        """Those of these jobs that there are, and perhaps others whose ids are near theirs."""
        return [job for ids in runs_of(job_ids) for job in self._listed({"ids": [ids]})]

    def _listed(self, select: Fields, **fields: Any) -> list[dict[str, Any]]:
        try:
            jobs: list[dict[str, Any]] = self.request("list", select=select, **fields)["jobs"]
        except NotFound:
            return []
        return jobs

    def calls_of_jobs(self, job_ids: list[int]) -> Iterator[str]:
        """The files of calls that these jobs have yet to make."""
        return _words(job for job in self._jobs(job_ids) if job["state"] in _UNFINISHED)

    def calls_of_group(self, group: str) -> Iterator[str]:
        """The files of calls that the jobs of a group have yet to make."""
        return _words(self._jobs_of(group, _UNFINISHED))

    # --- the end of a job ---

    def _resolve(self, live: _Live, end: dict[str, Any]) -> None:
        with self._changed:
            if live.claimed:
                return
            live.claimed = True
        try:
            self._resolve_future(live, end)
        except Exception as error:
            live.future.resolve_error(error)
        finally:
            if live.asked is not None:
                live.asked.done(live.file)
            with self._changed:
                self._live.pop(end["id"], None)
                self._changed.notify_all()

    def _resolve_future(self, live: _Live, end: dict[str, Any]) -> None:
        result = failure = None
        try:
            if not live.future.cancelled():
                result = _result(live, end)
        except OSError:
            raise  # It is there, and can't be read just now: nothing is deleted.
        except Exception as error:
            failure = error
        # First, so that all is gone when a program has its last result and leaves.
        if live.calls is not None and not live.calls.keeps:
            live.calls.forget(live.file, end["attempt"])
        if end["state"] == JobState.CANCELLED or live.future.cancelled():
            live.future.resolve_cancelled()
        elif result is not None:
            # If the process fell over while it was cleaning up, the call had returned all the same.
            live.future.resolve_result(result)
        else:
            live.future.resolve_error(failure or self._failure(live, end))

    def _failure(self, live: _Live, end: dict[str, Any]) -> JobFailed:
        reason = end.get("reason") or ""
        if end["state"] == JobState.SUCCEEDED:
            gone = not os.path.exists(live.file)
            reason = "its result was deleted" if gone else "its process ended without a result"
        log_path = live.future.log_path
        if log_path is None and end["attempt"]:
            try:
                log_path = self.job(end["id"])["log"]
            except StokerError:
                pass  # The reason is worth more than the log.
        how = (end["state"], reason, end.get("exit_code"), end.get("signal"))
        return JobFailed(end["id"], *how, tail_of(log_path))


def _result(live: _Live, end: dict[str, Any]) -> Result | None:
    """What a job's call gave, as far as can be told by its files."""
    found = read_result(live.file, end["attempt"])
    if found is not None or live.result is None or end["state"] != JobState.SUCCEEDED:
        return found
    with open(live.result, "rb") as file:  # The first was deleted.
        return Result(True, pickle.load(file))


def _words(jobs: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (word for job in jobs for word in job["argv"])


def worker_words(file: str, full_name: str, warm: str | None = None) -> list[str]:
    """The command line of a worker; an executor that knows nothing of `--warm` just runs it."""
    if not sys.executable:
        raise Failed("the path of this Python is not known", "start it by its full path")
    return command_lines.call(_WORKER, file, full_name, warm)


# --- the channels of this process -----------------------------------------------------------------

_channels: dict[str, Channel] = {}
_opening = threading.Lock()


def channel(home: Home | None = None) -> Channel:
    """The channel to a Stoker, or to the one that the environment names."""
    home = home or Home.from_environment()
    with _opening:
        found = _channels.get(home.root)
        if found is None or not os.path.isdir(found.calls.directory):
            found = _channels[home.root] = Channel(home)
        return found


def _begin_anew() -> None:
    """A forked child has neither the thread nor connections of its own."""
    global _opening
    for one in _channels.values():
        one.forked()
    _channels.clear()
    _opening = threading.Lock()


def _leave() -> None:
    """Leave no files behind, but for those of calls that may still be made."""
    for one in _channels.values():
        one.calls.close()


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(_leave)
