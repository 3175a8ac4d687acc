"""The messages on the daemon's socket: one JSON object a line, decoded and validated by msgspec.

A request has `op` and its fields; the answer is `{"ok": true, ...}` or
`{"ok": false, "error": {"code", "message", "hint"}}`. Requests on one connection are answered in
order. Units are in the names; times on the wire are milliseconds since the epoch.
The daemon and the page import this module; the command line builds plain dictionaries.
"""
# ruff: noqa: RUF012 (msgspec gives each message its own copy of a default)

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from stoker.api.curve_messages import Curve, Curves
from stoker.api.field_types import CodeAt, JobId, Millis
from stoker.api.gpu_messages import (
    GpuAdd,
    GpuDrain,
    GpuHistory,
    GpuLend,
    GpuRemove,
    GpuResume,
    Gpus,
    JobHistory,
    Profiles,
    ProfilesForget,
)
from stoker.api.job_messages import JobOwn as JobOwn
from stoker.api.job_messages import JobRequest as JobRequest
from stoker.api.request import Names, OfJobs
from stoker.api.request import Request as Request
from stoker.api.request import Select as Select
from stoker.api.search_messages import Searches, SearchStart, SearchTold, StopEarly

MAX_MESSAGE_BYTES = 256 * 1024 * 1024


Rerun = Literal["missing", "failed", "all", "never"]
"""Which points get another job: those that have not succeeded; of these those tried; all; none."""


class Submit(Request, tag="submit"):
    """Queue jobs, all or none. Answer: `ids`.

    With `each`, `jobs` has one: as many jobs are queued as `each` has entries, all of them like
    that one but for what their entry says. What they share is then said, and looked at, once.

    With `rerun`, jobs are left out by the latest job of their point: if that is not final; if it
    has succeeded, unless `rerun` is "all"; if there is none, where it is "failed"; if there is any,
    where it is "never". `ids` are those of the others. `left_out` says how many of each, as
    `unfinished`, `succeeded`, `not_tried`, `tried` ("never"); `left_out_in`, in which groups.

    A submission that was cut off can be repeated with its token: if it was taken, the answer is
    what it was the first time, and nothing is queued twice.
    """

    jobs: list[JobRequest]
    cwd: str
    env: dict[str, str]
    user: str = ""
    umask: Annotated[int, Meta(ge=0, le=0o777)] | None = None  # else the daemon's
    env_of: JobId | None = None  # environment and umask of that job are taken instead
    code: dict[str, CodeAt] = {}  # by the directories of jobs that are in a repository
    token: Annotated[str, Meta(max_length=100)] | None = None  # the same one when it is repeated
    rerun: Rerun | None = None
    each: list[JobOwn] | None = None
    attached: bool = False  # the client runs the (single) job in its own terminal: see Attach
    check: bool = False  # queue nothing: only refuse what would be refused


class Adopt(Request, tag="adopt"):
    """Take a process that Stoker did not start for a job. Answer: `id`, `gpus`, `process`.

    Without `on`, its GPUs are those on which the driver shows it or its descendants.
    """

    process: Annotated[str, Meta(max_length=50)]  # "4711", or with its start time "4711@98765"
    on: Names = []
    mem_mib: Annotated[int, Meta(ge=1, le=10**9)] | None = None  # else the whole of each GPU
    mem: Literal["auto", "whole"] | None = None
    name: str | None = None
    group: str | None = None
    user: str = ""


class List(Request, tag="list"):
    """Answer: `jobs` (newest last) and `total`, the count before `limit`."""

    select: Select = msgspec.field(default_factory=Select)
    states: list[str] = []
    user: str | None = None
    all: bool = False  # finished ones of any age too; else the last few of them
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class Browse(Request, tag="browse"):
    """One window of a long list, cheap however long it is. Answer: `jobs`, `total`, `version`.

    `total` is the count before `offset` and `limit`; `version` is that of the state (see Watch)
    before which nothing was left out. Each job has `id`, `name`, `state`, `group`, `priority`,
    `user`, `command` (shortened), `need` (`gpus`, `share`, `mem_mib`, `mem`, `cpus`), `gpus`,
    `attempt`, `submitted_at_ms`, `started_at_ms`, `ended_at_ms`, `exit_code`, `signal`, `reason`
    (in words), `reason_kind`, `point`, `suspended_at_ms`, `suspended_ms`, and of those that wait
    `position`, from 1.
    """

    ids: Annotated[list[JobId], Meta(max_length=1000)] = []  # only these, of those that there are
    states: Annotated[list[str], Meta(max_length=20)] = []
    group: Annotated[str, Meta(max_length=1000)] | None = None
    user: Annotated[str, Meta(max_length=1000)] | None = None
    # A filter, as in "state:failed name:lr* resnet": see api.job_filter.
    text: Annotated[str, Meta(max_length=1000)] = ""
    # standing: what runs, what waits in its order, what is held, what ended (the latest first)
    sort: Literal[
        "standing", "id", "name", "state", "group", "priority", "user", "started", "ended", "time"
    ] = "standing"
    descending: bool = False
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=0, le=1_000)] = 100


class Watch(Request, tag="watch"):
    """Hear that things have changed, from now on, on this connection.

    Lines `{"ok": true, "event": "changed", "version", "changed", "many", "at_ms", "counts",
    "gpus", "paused", "paused_groups", "short", "disk", "cpus"}`, the first at once and further
    ones at most every `every_ms`. `changed` has the ids of the jobs that have changed since the
    line before; with `many` there are more than it names. `gpus` is left out when they are as
    they were. A client that does not read misses lines, never changes. Further requests are
    answered in between.
    """

    every_ms: Annotated[int, Meta(ge=50, le=60_000)] = 250


class Related(Request, tag="related"):
    """The jobs that a job waits for, those that wait for it, and so on for a few steps.

    Answer: `jobs`, each with `id`, `name`, `state`; `links`: [required, requiring, whether it must
    succeed]; `more`: whether there are more jobs in a step than are shown.
    """

    job_id: JobId
    steps: Annotated[int, Meta(ge=1, le=5)] = 3


class Attempts(Request, tag="attempts"):
    """What ran on the GPUs lately: attempts that have ended since a moment, or have not ended.

    Answer: `attempts`, the latest start first: each `id`, `attempt`, `name`, `state`, `gpus`,
    `started_at_ms`, `ended_at_ms`; `more` if there are more than `limit`; `now_ms`.
    """

    since_ms: Millis
    limit: Annotated[int, Meta(ge=1, le=20_000)] = 5_000


class Usage(Request, tag="usage"):
    """What the GPUs were used for, between each two of some moments.

    Answer, one figure for each stretch: `busy_ms` of all GPUs together; `groups` and `users`, those
    that used most first, each `name` ("" for the rest) and `gpu_ms`; `ended`, attempts by state;
    `started`, and how long the jobs that started had waited: `waited_ms` (the median) and
    `waited_long_ms` (longer than nine of ten). Also `gpus`, how many there are now, and `now_ms`.
    A GPU that jobs share is split evenly between them.
    """

    edges_ms: Annotated[list[Millis], Meta(min_length=2, max_length=400)]


class Forecast(Request, tag="forecast"):
    """What should start next, by the run times of earlier jobs. Answer: `starts`, `now_ms`.

    Each start: `id`, `name`, `gpus`, `starts_at_ms`, `ends_at_ms` or null. There are none for
    what nothing is known of, and none at all with a very long queue. `places`: the place in the
    line of each job of `places_of`, null for one that does not wait. `ends`, if asked for: `id`,
    `attempt` and `ends_at_ms` of each job that runs and whose end can be told.
    """

    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    places_of: Annotated[list[int], Meta(max_length=1_000)] = []
    ends: bool = False
    most_unfinished: Annotated[int, Meta(ge=0)] | None = None  # with more, nothing is estimated


class Sweeps(Request, tag="sweeps"):
    """Answer: `sweeps`, the newest first.

    Each `sweep` (the name, which is a group), `points`, `counts` by state (of the latest job of
    each point), `varied` (as in SweepPoints), `last_id`, `submitted_at_ms`.
    """

    limit: Annotated[int, Meta(ge=1, le=100_000)] = 1_000


class SweepPoints(Request, tag="sweep_points"):
    """The latest job of each point of a sweep, in the order in which the points were queued.

    Answer: `points`: each `id`, `state`, `params`, `gpus`, `attempt`, `exit_code`, `signal`,
    `submitted_at_ms`, `started_at_ms`, `ended_at_ms`; `total`; `counts`; `varied`, the names of
    the parameters that differ between points.
    """

    sweep: Annotated[str, Meta(max_length=1000)]
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=0, le=100_000)] = 1_000


class SweepTable(Request, tag="sweep_table"):
    """All points of a sweep at once, column by column: what SweepPoints tells of very many.

    Answer: `total`, `counts`, `varied`; `columns`: `id`, `state`, `gpus`, `exit_code`, `signal`,
    `started_at_ms`, `ended_at_ms`, each a list of `total` values; `params`: the same of each
    parameter that varies, with `absent`: {name: rows in which it is not there at all}. With
    `in_full` there are also `attempt`, `submitted_at_ms`, `command`, `reason`, `log` and `params`
    (all of them) among the columns. `repeat`: the parameter of `--repeat`, or null. `search`: null,
    or the `state`, `progress` and `objectives` of a search.
    """

    sweep: Annotated[str, Meta(max_length=1000)]
    in_full: bool = False


class Show(OfJobs, tag="show"):
    """Answer: `jobs`, each with its `attempts`; with `env` also what --env has set, in `env`."""

    env: bool = False


class Why(OfJobs, tag="why"):
    """Answer: `jobs`: `id`, `state`, `reason` (data), `text`...; their `searches`; `more` jobs."""

    most_unfinished: Annotated[int, Meta(ge=0)] | None = None  # with more, nothing is estimated
    first_unfinished: Annotated[int, Meta(ge=0)] | None = None  # only so many, and none that ended


class Metrics(OfJobs, tag="metrics"):
    """Answer: `rows` of metrics.asking.Summary, with nan and inf as text; `unread`: ask again."""

    names: Names = []  # of metrics; none: all
    patience_ms: Annotated[int, Meta(ge=0, le=10_000)] = 10_000  # for what is not read yet


class Points(Request, tag="points"):
    """Which points have a job already. Answer: `points`: `{point: {"id", "state"}}`, the latest."""

    points: list[str]


class Wait(OfJobs, tag="wait"):
    """Answered when all jobs are final, and the group is no search that goes on: `jobs`.

    `any`: answered as soon as one of them is, with those that are. `one_by_one`: those that are are
    told as they end, in lines `{"ok": true, "event": "ended", "jobs"}` before the answer. Neither
    waits for a search.
    """

    any: bool = False
    one_by_one: bool = False


class Follow(Request, tag="follow"):
    """Hear of a group's jobs as they start and end, from now on, on this connection.

    First `{"ok": true}`, then lines `{"ok": true, "event": "started", "id", "attempt", "gpus",
    "log"}` and `{"ok": true, "event": "ended", "id", "attempt", "state", "exit_code", "signal",
    "reason", "final", "ran_ms"}`; with `final` false the job is queued again for another attempt.
    `log` is where the output is of a job that runs here and has no file of its own for it (--out).
    Further requests on the connection are answered in between.
    """

    group: str


class Cancel(OfJobs, tag="cancel"):
    """Answer: `ids` that were told to stop, and `left_out`, by why: adopted jobs.

    With `let_go`, these adopted jobs end, and their processes go on. With `check`, all stay as they
    are, and `skipped` has the ids of the jobs that would be skipped, since they require these.
    """

    let_go: bool = False
    check: bool = False


class Retry(OfJobs, tag="retry"):
    """Queue finished jobs again. Answer: `ids`, `counts`, `left_out`.

    One that is named by its id is queued again however it ended. Of ranges, names, groups and all,
    those are that did not succeed and were not cancelled, unless `select.states` says otherwise.
    `counts`: how many had ended in which state. `left_out`: ids of the others, by why they are not
    queued again: their state, or in words.
    """


class ClusterCheck(Request, tag="cluster_check"):
    """Try the cluster. Answer: `checks`, each `name`, `ok` (true, false or null) and `text`."""


class Requeue(OfJobs, tag="requeue"):
    """Put running jobs back into the queue. Answer: `ids`, and perhaps `left_out`: ids by why."""


class Suspend(OfJobs, tag="suspend"):
    """Stop all processes of running jobs. Answer: as that of Requeue."""


class ResumeJobs(OfJobs, tag="resume_jobs"):
    """Let suspended jobs go on. Answer: as that of Requeue."""


class Yield(OfJobs, tag="yield"):
    """Let running jobs give way that offered it. Answer: as that of Requeue."""


class Hold(OfJobs, tag="hold"):
    """Answer: `ids`."""


class Release(OfJobs, tag="release"):
    """Answer: `ids`."""


class Remove(OfJobs, tag="remove"):
    """Forget finished jobs and their logs. Answer: `ids`."""

    older_ms: Millis | None = None  # of these, only those that ended longer ago than this


class Edit(OfJobs, tag="edit"):
    """Change waiting or held jobs; only the fields in `changes` (those of JobRequest) change.

    Answer: `ids`, and `left_out`: ids of jobs that could not be changed, by their state or by why.
    It is refused if no job could be changed.
    """

    changes: dict[str, Any]


class Pause(Request, tag="pause"):
    """Start nothing new, in a group or at all."""

    group: str | None = None


class Resume(Request, tag="resume"):
    """Undo Pause. Of a group, let suspended jobs go on too. Answer: `ids` of these."""

    group: str | None = None


class Groups(Request, tag="groups"):
    """Answer: `groups`, the newest last: each `group`, `paused`, `max_running`, `counts` by state.

    Those without jobs are told of only if they are paused or limited.
    """


class LimitGroup(Request, tag="limit_group"):
    """At most this many of a group's jobs run at a time; null lifts the limit.

    With `known_only`, an unknown group is refused.
    """

    group: str
    max_running: Annotated[int, Meta(ge=1, le=1_000_000)] | None
    known_only: bool = False


class ConfigGet(Request, tag="config_get"):
    """Answer: `settings`: `name`, `value`, `default`, `help` of one or all."""

    name: str | None = None


class ConfigSet(Request, tag="config_set"):
    """Answer: `value` as understood. A null value restores the default."""

    name: str
    value: str | None


class Status(Request, tag="status"):
    """Answer: `gpus`, `jobs` (active and the last few finished), `counts`, `paused`, `daemon`."""

    limit: Annotated[int, Meta(ge=1, le=100_000)] = 20


class Disk(Request, tag="disk"):
    """What takes how much of the disk. Answer: `parts`, `logs`, `largest`, `disks`, `total_bytes`.

    See daemon/disk_use.py.
    """


class PageSettings(Struct, forbid_unknown_fields=True, kw_only=True):
    """Where the page is served, and who may reach it."""

    host: Annotated[str, Meta(min_length=1, max_length=255)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] | None = None  # None: one that is free
    names: Annotated[list[Annotated[str, Meta(max_length=255)]], Meta(max_length=50)] = []
    tls_cert: Annotated[str, Meta(max_length=4096)] | None = None
    tls_key: Annotated[str, Meta(max_length=4096)] | None = None
    behind_proxy: bool = False  # which has TLS, and a name among `names`
    metrics: bool = False


class PageStart(Request, tag="page_start"):
    """Serve the page, in a process of its own. Answer: `url`, `pid`, `started`, `settings`, and
    `taken`: the port that it would have had, if another program has that.

    Only the settings in `changes` change; a page that runs with others is started anew. They are
    kept until PageStop, and the page comes back with the next daemon.
    """

    changes: dict[str, Any] = {}


class PageStop(Request, tag="page_stop"):
    """End the page, and forget its settings. Answer: `stopped`, false if there was none."""


class PageStatus(Request, tag="page_status"):
    """Answer: `running`; if it runs `url`, `pid`, `settings`, else `trouble`: what prevents it."""


class Hello(Request, tag="hello"):
    """Answer: `pid`, `version`, `api`, `socket`, `home`, `started_at_ms`, `uptime_s`, `turns`.

    `turns` has `count` and, of the latest thousand at most, `p50_ms`, `p99_ms` and `most_ms`.
    """

    latest: Annotated[int, Meta(ge=1)] | None = None  # of only so many turns


class Shutdown(Request, tag="shutdown"):
    """leave: jobs go on without a daemon. kill: stop them first. drain: end after the last one.

    Answered at once; the daemon is gone when its pid is.
    """

    mode: Literal["leave", "kill", "drain"] = "leave"


class Attach(Request, tag="attach"):
    """Follow an attached job from its terminal.

    The connection then carries, as lines: `{"ok": true, "event": "waiting", "text"}` whenever the
    reason changes, `{"ok": true, "event": "granted", "attempt", "dir", "argv", "env", "namespace"}`
    once for each attempt, and `{"ok": true, "event": "ended", "state", "exit_code", "signal",
    "text"}` at last. The client may start what was granted only once it has accepted it, by a file
    in the attempt's directory (executors/acceptances.py); it answers with AttachStarted on the same
    connection, and writes the truth of the exit to that directory.
    """

    job_id: JobId
    claims: bool = False  # the client knows that it has to; one that does not is refused


class AttachStarted(Request, tag="attach_started"):
    """The client's process for an attempt runs: its pid; or why it could not start."""

    job_id: JobId
    attempt: JobId
    pid: int | None = None
    error: str = ""
    errno: int = 0  # the system's number for that, if it has one


AnyRequest = (
    Submit | Adopt | List | Browse | Watch | Attempts | Forecast | Sweeps | SweepPoints | SweepTable
    | Related | Usage | Show | Why | Points | Wait | Follow | Cancel | Retry | Hold | Release
    | Remove | Edit | Pause | Resume | Groups | LimitGroup | Gpus | GpuHistory | JobHistory
    | Metrics | Profiles | ProfilesForget | GpuAdd | GpuRemove | GpuDrain | GpuResume | GpuLend
    | ClusterCheck | ConfigGet | ConfigSet | Status | Disk | PageStart | PageStop | PageStatus
    | Hello | Shutdown | Attach | AttachStarted | Searches | SearchStart | SearchTold
    | StopEarly | Curve | Curves | Requeue | Suspend | ResumeJobs | Yield
)  # fmt: skip
