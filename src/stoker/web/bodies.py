"""What the HTTP api takes: the fields of each question and each order, checked as they come in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from stoker.api.field_types import JobId
from stoker.api.messages import Browse, JobRequest

Text = Annotated[str, Meta(max_length=1000)]
Ids = Annotated[list[JobId], Meta(max_length=10_000)]
GpuWords = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(min_length=1, max_length=256)
]
Attempt = Annotated[int, Meta(ge=1, le=10**9)]
Place = Annotated[int, Meta(ge=0, le=2**60)]
# By the names of the table of job options, as in Python; submission.keywords reads them.
Options = dict[str, Any]


class Fields(Struct, forbid_unknown_fields=True, kw_only=True):
    """The base of all: a field that is not known is refused, never ignored."""


JobsQuestion = msgspec.defstruct(
    "JobsQuestion",
    [(f.name, f.type, f.default if f.default_factory is msgspec.NODEFAULT else [])
     for f in msgspec.structs.fields(Browse)],
    bases=(Fields,), module=__name__, namespace={"__doc__": "A window of the list of jobs."},
)  # fmt: skip


class WhichLog(Fields):
    """Of which attempt (default: the latest), and whether of the errors."""

    attempt: Attempt | None = None
    err: bool = False


class LogQuestion(WhichLog, kw_only=True):
    """A part of a log: after a place, before one, or around one; else the end."""

    after: Place | None = None
    before: Place | None = None
    around: Place | None = None
    bytes: Annotated[int, Meta(ge=1, le=1_048_576)] = 65_536


class LogSearch(WhichLog, kw_only=True):
    """A text to look for in a log."""

    text: Annotated[str, Meta(min_length=1, max_length=1000)]
    after: Place = 0
    places: bool = False  # only where the lines begin, and more of them at a time


class TicketRequest(WhichLog, kw_only=True):
    """A link is wanted by which a browser can download a log."""

    id: JobId


class TicketQuestion(Fields):
    """The link's ticket."""

    ticket: Text


class TimelineQuestion(Fields):
    """How far back to look."""

    hours: Annotated[float, Meta(gt=0, le=24 * 31)] = 6.0
    limit: Annotated[int, Meta(ge=1, le=20_000)] = 5_000


class HistoryQuestion(Fields):
    """Which attempt (default: the latest)."""

    attempt: Attempt | None = None


class GpuHistoryQuestion(Fields):
    """How far back to look."""

    minutes: Annotated[float, Meta(gt=0, le=60 * 24 * 31)] = 15.0


class UsageQuestion(Fields):
    """The moments between which the use is told."""

    edges_ms: Annotated[list[Place], Meta(min_length=2, max_length=400)]


class LimitRequest(Fields):
    """How many jobs of a group may run at a time; null for any number."""

    group: Annotated[str, Meta(min_length=1, max_length=1000)]
    max_running: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class SweepQuestion(Fields):
    """A part of a sweep's points."""

    name: Text
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=0, le=100_000)] = 1_000


class SweepResultsQuestion(Fields):
    """A sweep's points with their metrics; by `metric` (default: the run time) one is best."""

    name: Text
    metric: Text | None = None
    likely: bool = False  # if none is named: that of a search, else a validation loss or so
    goal: Literal["min", "max"] | None = None  # default: a search's, what the name tells, or min
    value: Literal["best", "last"] = "best"  # of each run, the best value or the last one
    single: bool = False  # one row per run, also where points were repeated
    all: bool = True  # false: values of `metric` only
    known: Text | None = None  # the `version` of an answer: if it is still the same, that is said
    delta: bool = False  # of one that is not the same, how its long parts differ, if that is known


class MetricShown(Fields):
    """A metric and which of its values are best; else what is likely to be looked for."""

    metric: Text | None = None
    goal: Literal["min", "max"] | None = None


class SweepCurvesQuestion(MetricShown, kw_only=True):
    """The curves of a sweep's points."""

    name: Text
    most: Annotated[int, Meta(ge=1, le=1000)] = 200


class CompareQuestion(MetricShown, kw_only=True):
    """Jobs that are compared."""

    id: Annotated[list[JobId], Meta(min_length=1, max_length=50)]


class Nothing(Fields):
    """No fields at all."""


class SubmitRequest(Fields):
    """Jobs to be queued, all or none."""

    jobs: Annotated[list[JobRequest], Meta(min_length=1, max_length=100_000)]
    options: Options = {}  # of all of them: {"mem": "8G", "time_limit": "2h", "priority": 3}
    cwd: Annotated[str, Meta(max_length=4096)] | None = None  # else the user's home
    environment_of: JobId | None = None  # a job whose environment is taken; else the page's own
    token: Annotated[str, Meta(max_length=100)] | None = None  # the same when it is repeated


class Chosen(Fields):
    """Which jobs are meant: the union of what is named; `text` and `states` narrow it."""

    ids: Ids = []
    names: Annotated[list[Text], Meta(max_length=1000)] = []
    group: Text | None = None
    all: bool = False
    states: Annotated[list[Text], Meta(max_length=20)] = []  # of these, only those in such a state
    text: Text = ""  # a filter, as in "state:failed lr*"; alone it means all that match


class CancelRequest(Chosen):
    """Which jobs are meant; with `let_go`, adopted ones end, and their processes go on."""

    let_go: bool = False


class AdoptRequest(Fields):
    """A process that runs already, and the options of the job that it becomes."""

    pid: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    options: Options = {}  # on, mem, name, group


class RemoveRequest(Chosen):
    """Which finished jobs are meant, and of these only those that ended longer ago than this."""

    older_ms: Annotated[int, Meta(ge=0, le=10**15)] | None = None


class EditRequest(Chosen, kw_only=True):
    """New values for jobs that wait, as fields of a job or as options: only what is named changes.

    An option that is null is taken away.
    """

    changes: dict[str, Any] = {}
    options: Options = {}


class GpuRequest(Fields):
    """GPUs by id; to be added also with memory, e.g. "4:24G"."""

    gpus: GpuWords


class QueueRequest(Fields):
    """A group, or the whole queue."""

    group: Text | None = None


class SweepRequest(Fields):
    """A parameter space and the command of each of its points."""

    space: Annotated[
        list[Annotated[str, Meta(max_length=100_000)]], Meta(min_length=1, max_length=100)
    ]  # "lr=0.1,0.01"
    command: Annotated[str, Meta(min_length=1, max_length=100_000)]  # as typed in a shell
    name: Text | None = None
    cwd: Annotated[str, Meta(max_length=4096)] | None = None
    samples: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    shuffle: bool = False
    where: Annotated[list[Text], Meta(max_length=20)] = []
    style: Literal["flags", "hydra"] = "flags"
    rerun: Literal["failed", "all"] | None = None
    max_running: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    job: JobRequest | None = None  # needs and terms of every point, or ...
    options: Options = {}  # ... the same as they would be typed: {"mem": "8G"}


class EnterRequest(Fields):
    """The secret of a one-time link, or a token."""

    secret: Annotated[str, Meta(min_length=1, max_length=1000)]
