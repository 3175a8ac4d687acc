"""Everything that the command line can do, as methods.

Jobs come as the dictionaries of `stoker ls --json` and `stoker show --json`, with times in
milliseconds since the epoch (`started_at_ms`). Errors are those of `stoker.errors`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from stoker.api.compact import in_few_words
from stoker.api.job_options import duration_said
from stoker.api.paths import Home
from stoker.errors import UsageError
from stoker.library.connection import Connection, whole_answers
from stoker.library.forms import command_of, described, request_of, selection, texts
from stoker.library.searching import SEARCH_WORDS, Searching
from stoker.library.waits import Waiting
from stoker.quantities import duration_ms
from stoker.submission.changes import changed_fields
from stoker.submission.keywords import check_keywords, in_keywords, values_of
from stoker.submission.surroundings import (
    absolute_paths,
    project_file,
    surroundings,
    take_code,
)
from stoker.text.jobs import exit_code
from stoker.text.logfile import whole_log

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from stoker.api.job_keywords import (
        AdoptedOptions,
        Duration,
        JobOptions,
        LineOptions,
        PointOptions,
    )
    from stoker.api.tokens import Access
    from stoker.library.many import QueuedBatch, QueuedSweep

    class Which(TypedDict, total=False):
        """Jobs by name or group, and of those that are meant only those in these states."""

        name: str | None
        group: str | None
        state: str | Iterable[str] | None


Job = dict[str, Any]


class Client(Waiting, Searching):
    """A Stoker: the one that the environment names, or that of another state directory.

    Where methods take jobs, these are ids (7), ranges ("3-9"), "last", futures, or lists of them;
    or all jobs of a `name` (patterns such as "run-*" too) or a `group`; and of these
    only those in a `state` ("failed", or several).
    """

    def __init__(self, home: str | os.PathLike[str] | None = None, *, autostart: bool = True):
        where = None if home is None else Home(os.path.abspath(home))
        self._connection = Connection(where, autostart=autostart)
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the daemon; the next order connects again."""
        self._connection.close()

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """Any message of the api, as it is."""
        with self._lock, whole_answers(self._connection):
            return self._connection.call(op, **fields)

    @contextmanager
    def _alone(self) -> Iterator[Connection]:
        with self._lock, whole_answers(self._connection):
            yield self._connection

    def _listed(self, op: str, name: str, **fields: Any) -> list[Any]:
        """One list of the answer."""
        found: list[Any] = self.call(op, **fields)[name]
        return found

    # --- queueing ---

    def add(self, command: str | Sequence[str], **options: Unpack[JobOptions]) -> int:
        """Queue a command and give its job's id; the options are those of `stoker add`.

        A string is run by the login shell, a list of words as it is.
        """
        return self.add_many([{"command": command, **options}])[0]

    def add_many(self, jobs: Iterable[Mapping[str, Any]]) -> list[int]:
        """Queue many, all or none: each a dictionary with `command` and options."""
        jobs = list(jobs)
        # A job in another directory may be of another project.
        has_project = project_file(os.getcwd()) is not None
        requests = [request_of(job, has_project or "cwd" in job) for job in jobs]
        if not requests:
            return []
        token = os.urandom(16).hex()
        common = surroundings()
        with self._lock, whole_answers(self._connection):
            take_code(self._connection, requests, common)
        order = {**in_few_words(requests), "token": token, **common}
        return self._listed("submit", "ids", **order)

    def adopt(self, pid: int, **options: Unpack[AdoptedOptions]) -> int:
        """Make a job of a process that runs already, and give its id: its GPUs count as taken.

        `on` names its GPUs where no driver tells; the other options are `mem`, `name` and `group`.
        """
        from stoker.submission.adopting import adoption

        try:
            fields = adoption(str(pid), values_of(options))
        except UsageError as error:
            raise in_keywords(error) from None
        job_id: int = self.call("adopt", **fields)["id"]
        return job_id

    def run(self, command: str | Sequence[str], **options: Unpack[JobOptions]) -> int:
        """Queue a command, wait for its end, and give its exit code; Ctrl-C cancels it."""
        job_id = self.add(command, **options)
        try:
            return exit_code(self.wait(job_id))
        except KeyboardInterrupt:
            self.cancel(job_id)
            raise

    # --- queueing many ---

    def sweep(
        self,
        command: str | Sequence[str] | None = None,
        params: Mapping[str | tuple[str, ...], Any] | None = None,
        *,
        file: str | os.PathLike[str] | None = None,
        samples: int | None = None,
        seed: int = 0,
        shuffle: bool = False,
        where: str | Sequence[str] = (),
        repeat: Mapping[str, int] | None = None,
        style: str = "flags",
        rerun: str | None = None,
        max_running: int | None = None,
        name: str | None = None,
        **options: Unpack[PointOptions],
    ) -> QueuedSweep:
        """Queue a parameter space, one job per point, as `stoker sweep` does.

        Values are a list, a range, text as on the command line ("loguniform(1e-6,1e-2)"), or a
        dictionary as in a sweep file; a tuple of names has a list of tuples, which go together.
        The answer has the sweep's `name` (the group of its jobs) and the `ids` that were queued.
        """
        from stoker.library import many

        if any(word in options for word in SEARCH_WORDS):
            raise UsageError("a sweep runs all of its points", "use Client.search to search")
        check_keywords(options, self.sweep)
        spec = many.SweepSpec(
            command, params or {}, file, samples, seed, shuffle, where, repeat, style, rerun,
            max_running, name, options,
        )  # fmt: skip
        with self._lock, whole_answers(self._connection):
            return many.sweep(self._connection, spec)

    def sweeps(self) -> list[dict[str, Any]]:
        """The sweeps, the newest first: `sweep`, `points`, `counts` by state, `varied`."""
        return self._listed("sweeps", "sweeps", limit=100_000)

    def sweep_points(self, sweep: str) -> list[Job]:
        """What came of a sweep: the latest job of each point, with its `params`."""
        columns = self.call("sweep_table", sweep=sweep, in_full=True)["columns"]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def feed(
        self,
        lines: str | os.PathLike[str] | Iterable[str],
        *,
        group: str | None = None,
        **options: Unpack[LineOptions],
    ) -> list[Job]:
        """Queue one command per line and return when the last has ended, like `stoker feed`.

        Text, a path or a list is looked at as a whole before anything is queued; of an iterator
        each line is queued as it comes. Ctrl-C cancels what has not ended.
        """
        from stoker.library import many

        check_keywords(options, self.feed)
        group = group if group not in (None, "none") else f"feed-{os.urandom(4).hex()}"
        ids: list[int] = []
        try:
            for some in many.commands(lines):
                jobs = [{"command": text, "group": group, **options} for text in some]
                ids += self.add_many(jobs)
            return self.wait(ids) if ids else []
        except KeyboardInterrupt:
            if ids:
                self.cancel(group=group)
            raise

    def batch(
        self,
        source: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
        *,
        num: int | None = None,
        header: int | None = 0,
        template: str | None = None,
        profile_epochs: int | None = None,
        **options: Unpack[JobOptions],
    ) -> QueuedBatch:
        """Queue all jobs of a file or of rows, or none, as `stoker batch --no-wait` does.

        A row is a dictionary with a `command` and options, as in a file of JSON lines; options
        given here are for those rows that do not say otherwise. `num` works them off in batches;
        `profile_epochs` runs each kind of jobs briefly first, to learn what memory it needs.
        """
        from stoker.batch.reading import Reading
        from stoker.library import many

        check_keywords(options, self.batch)
        reading = Reading(False, None if header == 0 else (header,), template, num)
        with self._lock, whole_answers(self._connection):
            return many.batch(self._connection, source, reading, profile_epochs, options)

    # --- looking ---

    def status(self, limit: int = 20) -> dict[str, Any]:
        """GPUs, jobs, counts and the daemon at a glance."""
        return self.call("status", limit=limit)

    def ls(
        self,
        *jobs: Any,
        states: Sequence[str] = (),
        name: str | None = None,
        group: str | None = None,
        user: str | None = None,
        all: bool = False,
        limit: int | None = None,
    ) -> list[Job]:
        """Jobs: those that are not finished and the latest that are, or those that are named."""
        select = selection(jobs, name, group)
        wanted = [states] if isinstance(states, str) else list(states)
        fields = {"select": select, "states": wanted, "user": user, "all": all, "limit": limit}
        return self._listed("list", "jobs", **fields)

    def show(self, *jobs: Any, name: str | None = None, group: str | None = None) -> list[Job]:
        """Jobs with all their attempts."""
        return self._listed("show", "jobs", select=selection(jobs, name, group))

    def why(self, *jobs: Any, name: str | None = None, group: str | None = None) -> list[Job]:
        """Why jobs wait: `reason` as data, `text` in words, `starts_at_ms` if it can be told."""
        return self._listed("why", "jobs", select=selection(jobs, name, group))

    def logs(self, job: Any, *, err: bool = False) -> str:
        """What a job has printed; `err` for its errors, where they are kept apart."""
        found = self.show(job)[0]
        return whole_log(found["err_log"] if err else found["log"])

    # --- requests about jobs ---

    def cancel(self, *jobs: Any, let_go: bool = False, **which: Unpack[Which]) -> list[int]:
        """Stop jobs, or take them from the queue; the ids of those that had not ended.

        With `let_go`, jobs that were adopted end, and their processes go on.
        """
        select = self._selected(jobs, which)
        return self._listed("cancel", "ids", select=select, let_go=let_go)

    def retry(self, *jobs: Any, **which: Unpack[Which]) -> list[int]:
        """Queue finished jobs again: those named by id, and what of a group did not succeed."""
        return self._request("retry", jobs, which)

    def requeue(self, *jobs: Any, **which: Unpack[Which]) -> list[int]:
        """Put running jobs back into the queue, to go on later: no failure."""
        return self._request("requeue", jobs, which)

    def suspend(self, *jobs: Any, **which: Unpack[Which]) -> list[int]:
        """Stop all processes of running jobs until `resume`; they keep their GPUs."""
        return self._request("suspend", jobs, which)

    def yield_(self, *jobs: Any, **which: Unpack[Which]) -> list[int]:
        """Let running jobs that are preemptible give way, as if for an urgent job."""
        return self._request("yield", jobs, which)

    def hold(self, *jobs: Any, **which: Unpack[Which]) -> list[int]:
        """Put waiting jobs aside."""
        return self._request("hold", jobs, which)

    def release(self, *jobs: Any, **which: Unpack[Which]) -> list[int]:
        """Put held jobs back into the queue."""
        return self._request("release", jobs, which)

    def rm(self, *jobs: Any, older: Duration | None = None, **which: Unpack[Which]) -> list[int]:
        """Forget finished jobs and their logs; with `older`, those that ended so long ago ("30d").

        `older` alone means all jobs.
        """
        if older is None:
            return self._request("remove", jobs, which)
        older_ms = duration_ms(str(duration_said(older)), likely="dh")
        return self._request("remove", jobs, which, older_ms=older_ms)

    def edit(
        self, job: Any, command: str | Sequence[str] | None = None, **options: Unpack[JobOptions]
    ) -> list[int]:
        """Change a job that has not started; only what is named changes."""
        select = selection((job,), None, None)
        found = self._listed("show", "jobs", select=select)
        words = None if command is None else command_of(command)
        changes = changed_fields(values_of(options), words)
        absolute_paths(changes, found[0]["options"].get("freeze") or found[0]["cwd"])
        if not changes:
            raise UsageError("nothing to change was named", "e.g. edit(7, priority=-1)")
        return self._listed("edit", "ids", select=select, changes=changes)

    def _request(self, op: str, jobs: tuple[Any, ...], which: Which, **narrowed: int) -> list[int]:
        select = self._selected(jobs, which)
        if narrowed and not (select["ids"] or select["names"] or select["group"]):
            select["all"] = True
        return self._listed(op, "ids", select=select, **narrowed)

    def _selected(self, jobs: tuple[Any, ...], which: Which) -> dict[str, Any]:
        select = selection(jobs, which.get("name"), which.get("group"))
        if state := which.get("state"):
            select["states"] = state.split(",") if isinstance(state, str) else list(state)
        return select

    # --- requests about the queue, GPUs and settings ---

    def pause(self, group: str | None = None) -> None:
        """Start nothing new, in a group or at all."""
        self.call("pause", group=group)

    def resume(self, *jobs: Any, **which: Unpack[Which]) -> list[int]:
        """Let suspended jobs go on; without any, undo `pause` (with `group`: both, of a group)."""
        if jobs or which.keys() - {"group"}:
            return self._request("resume_jobs", jobs, which)
        return list(self.call("resume", group=which.get("group")).get("ids", ()))

    def groups(self) -> list[dict[str, Any]]:
        """The groups, the newest last: `group`, `paused`, `max_running`, `counts` by state."""
        return self._listed("groups", "groups")

    def limit_group(self, group: str, max_running: int | None) -> None:
        """Run at most this many of a group's jobs at a time; None lifts the limit."""
        self.call("limit_group", group=group, max_running=max_running)

    def disk(self) -> dict[str, Any]:
        """What takes how much of the disk: `parts`, `logs` by group and state, `largest` logs."""
        return self.call("disk")

    def gpus(self) -> list[dict[str, Any]]:
        """The GPUs, what is reserved on them, and which jobs have them."""
        return self._listed("gpus", "gpus")

    def add_gpus(self, *gpus: str | int) -> None:
        """Declare GPUs, e.g. 4 or "4:24G"."""
        self.call("gpu_add", gpus=texts(gpus))

    def remove_gpus(self, *gpus: str | int) -> None:
        """Take GPUs away; what runs on them ends by itself."""
        self.call("gpu_remove", gpus=texts(gpus))

    def drain_gpus(self, *gpus: str | int) -> None:
        """Start nothing new on these GPUs."""
        self.call("gpu_drain", gpus=texts(gpus))

    def resume_gpus(self, *gpus: str | int) -> None:
        """Undo `drain_gpus`."""
        self.call("gpu_resume", gpus=texts(gpus))

    def config(self) -> dict[str, str]:
        """All settings."""
        return {item["name"]: item["value"] for item in self.call("config_get")["settings"]}

    def set_config(self, name: str, value: object) -> str:
        """Change a setting; None restores its default. The value as it was understood."""
        text = None if value is None else str(value)
        understood: str = self.call("config_set", name=name, value=text)["value"]
        return understood

    def profiles(self) -> list[dict[str, Any]]:
        """What was learned of kinds of jobs: `kind`, `count`, `max_mib`, `use_percent`, ..."""
        return self._listed("profiles", "profiles")

    def forget_profiles(self, *kinds: str) -> list[str]:
        """Let these kinds be learned anew; all of them if none is named."""
        return self._listed("profiles_forget", "kinds", kinds=list(kinds), all=not kinds)

    def check_cluster(self) -> list[dict[str, Any]]:
        """Try the Slurm cluster: what was found, each with `name`, `ok` and `text`."""
        return self._listed("cluster_check", "checks")

    # --- the page ---

    def start_page(self, *, read_only: bool = False, **settings: Any) -> str:
        """Serve the page (host=, port=, ...); returns a one-time login link."""
        page = self.call("page_start", changes=settings)
        return f"{page['url']}/enter#{self._access().new_key(read_only=read_only)}"

    def stop_page(self) -> bool:
        """End the page; False if there was none."""
        stopped: bool = self.call("page_stop")["stopped"]
        return stopped

    def page(self) -> dict[str, Any]:
        """Whether the page is `running`, and its `url`, `pid` and `settings`."""
        return self.call("page_status")

    def create_token(
        self, name: str, *, read_only: bool = False, lasts_s: float | None = None
    ) -> str:
        """A token with which scripts may use the page's HTTP api; it is told only now."""
        lasts_ms = None if lasts_s is None else round(lasts_s * 1000)
        return self._access().new_token(name, read_only=read_only, lasts_ms=lasts_ms)[0]

    def tokens(self) -> list[dict[str, Any]]:
        """The tokens, and the browsers that were let in."""
        return [described(grant) for grant in self._access().grants() if grant.kind != "key"]

    def revoke_tokens(self, *names_or_ids: str) -> list[str]:
        """Make these good for nothing at once, all of them if none is named; their ids."""
        access = self._access()
        gone = access.revoke(list(names_or_ids)) if names_or_ids else access.revoke_all()
        return [grant.id for grant in gone if grant.kind != "key"]

    def _access(self) -> Access:
        from stoker.api.tokens import Access

        return Access(self._connection.home)

    # --- the daemon ---

    def daemon(self) -> dict[str, Any]:
        """What the daemon says of itself: pid, version, socket, home, uptime_s."""
        return self.call("hello")

    def stop_daemon(self, mode: str = "leave") -> None:
        """Stop the daemon: "leave" its jobs running, "kill" them, or "drain" until the last."""
        self.call("shutdown", mode=mode)
