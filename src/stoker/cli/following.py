"""The jobs of a batch watched until the last has ended: a line for each, and a summary."""

from __future__ import annotations

import sys
import time
from typing import Any

from stoker.api.client import ANSWER_TIMEOUT_S, Client, ConnectionLost, NoAnswerYet
from stoker.cli.reconnect import Reconnection
from stoker.errors import NotFound, StokerError, Unavailable
from stoker.text import duration_text
from stoker.text.jobs import FINAL_STATES, outcome
from stoker.text.terminal import clipped, escaped, has_terminal, painted, say, wants_colour

_REDRAW_S = 0.5
_MOST_FAILURES = 20
_LAST_LINES = 20

Job = dict[str, Any]


class Following:
    """Hears of groups from before their jobs are queued, so that no start or end is missed."""

    def __init__(self, groups: list[str]) -> None:
        self._groups = groups
        self._client = Client()
        self._titles: dict[int, str] = {}
        self._jobs: dict[int, Job] = {}
        self._gpus: dict[int, list[str]] = {}
        self._running: set[int] = set()
        self._began_at = time.monotonic()
        self._terminal = has_terminal(sys.stderr)
        self._drawn_at = 0.0

    def __enter__(self) -> Following:
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        """The jobs go on."""
        self._client.close()

    def _listen(self) -> None:
        """What is queued after this returns is heard of."""
        for group in self._groups:
            self._client.send("follow", group=group)
            while "event" in self._client.receive(ANSWER_TIMEOUT_S):
                pass  # Of a group that was there already.

    def to_the_end(self, ids: list[int], titles: list[str]) -> list[Job]:
        """Wait for all of them; how each ended, in the order of their ids."""
        self._titles = dict(zip(ids, titles, strict=True))
        reconnection = Reconnection(self._client)
        behind = False
        try:
            while len(self._jobs) < len(ids):
                try:
                    if behind:
                        self._catch_up()
                        behind = False
                    else:
                        self._take(self._client.receive(_REDRAW_S if self._terminal else None))
                except NoAnswerYet:
                    self._draw()
                except (ConnectionLost, Unavailable) as error:
                    reconnection.wait(error)
                    behind = True
        finally:
            self._wipe()
        return [self._jobs[job_id] for job_id in ids]

    def _catch_up(self) -> None:
        """A new connection: what happened without us is in the list."""
        self._listen()
        missing = [job_id for job_id in self._titles if job_id not in self._jobs]
        # Those that were removed since are not in the list; to name one would be an error.
        lowest_to_highest = f"{min(missing)}-{max(missing)}"
        try:
            with Client() as asking:
                listed = asking.call("list", select={"ids": [lowest_to_highest]})["jobs"]
        except NotFound:
            listed = []
        found = {job["id"]: job for job in listed}
        for job_id in missing:
            job = found.get(job_id, {"id": job_id, "state": "lost", "reason": "it was removed"})
            if job["state"] in FINAL_STATES:
                began, ended = job.get("started_at_ms"), job.get("ended_at_ms")
                self._ended(job | {"ran_ms": ended - began if began and ended else None})

    def _take(self, event: Job) -> None:
        job_id = event.get("id")
        if job_id not in self._titles or job_id in self._jobs:
            return
        if event["event"] == "started":
            self._gpus[job_id] = event["gpus"]
            self._running.add(job_id)
            self._draw()
        elif event.get("final"):
            self._ended(event)
        else:
            self._running.discard(job_id)

    def _ended(self, job: Job) -> None:
        job_id = job["id"]
        self._jobs[job_id] = {
            key: job.get(key) for key in ("id", "state", "exit_code", "signal", "reason", "ran_ms")
        }
        self._running.discard(job_id)
        if self._terminal:
            if job["state"] != "succeeded":
                self._wipe()
                say(self._line(job))
            self._draw()
        else:
            say(f"[{len(self._jobs)}/{len(self._titles)}] {self._line(job)}")

    def _line(self, job: Job) -> str:
        words = f"job {job['id']}, {self._titles[job['id']]}: {job['state']}"
        why = outcome(job)
        if why and job["state"] != "succeeded":
            words += f" ({why})"
        if job.get("ran_ms") is not None:
            words += f" after {duration_text(job['ran_ms'])}"
        gpus = self._gpus.get(job["id"])
        return words + (f" on GPU {','.join(gpus)}" if gpus else "")

    # ------------------------------------------------------------------ one line, redrawn

    def _draw(self) -> None:
        now = time.monotonic()
        if not self._terminal or now - self._drawn_at < _REDRAW_S / 5:
            return
        self._drawn_at = now
        self._write("\r\x1b[K" + clipped(self._progress(now), 79))

    def _progress(self, now: float) -> str:
        total, done = len(self._titles), len(self._jobs)
        running = len(self._running)
        failed = sum(job["state"] != "succeeded" for job in self._jobs.values())
        words = f"{done}/{total} done, {failed} failed, {running} running"
        words += f", {total - done - running} waiting"
        if done and done < total:
            left_ms = int((now - self._began_at) / done * (total - done) * 1000)
            words += f", about {duration_text(left_ms)} left"
        return words

    def _wipe(self) -> None:
        if self._terminal and self._drawn_at:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._terminal = False

    def last_words(self) -> None:
        """What those that failed have printed at last."""
        from stoker.cli.feeding.summary import last_words  # mostly nothing failed

        bad = [job["id"] for job in self._jobs.values() if job["state"] == "failed"]
        try:
            with Client(autostart=False) as asking:
                ids = [str(job_id) for job_id in bad[:_MOST_FAILURES]]
                jobs = asking.call("list", select={"ids": ids}, all=True)["jobs"] if ids else []
        except StokerError:
            return  # They were removed meanwhile, or the daemon is away.
        for job in jobs:
            self._write(last_words(job["id"], job, _LAST_LINES))

    def summary(self) -> None:
        """What became of them, in words."""
        jobs = list(self._jobs.values())
        bad = [job for job in jobs if job["state"] != "succeeded"]
        took = duration_text(int((time.monotonic() - self._began_at) * 1000))
        colour = wants_colour(sys.stderr)
        where = named_groups(self._groups)
        text = f"{len(jobs) - len(bad)} of {len(jobs)} jobs succeeded in {took} ({where})"
        self._write(painted(escaped(text), "red" if bad else "green", colour) + "\n")
        if not self._terminal:
            return  # Each has had its line, and a file is read from its beginning.
        for job in bad[:_MOST_FAILURES]:
            say(f"  {self._line(job)}; see `stoker logs {job['id']}`")
        if len(bad) > _MOST_FAILURES:
            group = only_group(self._groups) or "GROUP"
            say(f"  and {len(bad) - _MOST_FAILURES} more: `stoker ls --group {group}`")


def only_group(groups: list[str]) -> str | None:
    """The group of all jobs, if they have the same."""
    return groups[0] if len(groups) == 1 else None


def named_groups(groups: list[str]) -> str:
    """The groups in words: `group sweep`, `groups a, b and 7 more`."""
    shown = ", ".join(groups[:3])
    more = f" and {len(groups) - 3} more" if len(groups) > 3 else ""
    return f"group{'s' * (len(groups) > 1)} {shown}{more}"
