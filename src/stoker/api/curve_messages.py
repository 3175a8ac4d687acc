"""The messages about curves of metrics: see `messages`."""
# ruff: noqa: RUF012 (msgspec gives each message its own copy of a default)

from typing import Annotated, Literal

from msgspec import Meta

from stoker.api.request import Request

_JobId = Annotated[int, Meta(ge=0, le=10**18)]
_Text = Annotated[str, Meta(max_length=1000)]
_Patience = Annotated[int, Meta(ge=0, le=10_000)]  # for what is not read yet


class Curve(Request, tag="curve"):
    """All metrics of an attempt with their curves.

    Answer: `curves`: as the rows of Metrics, each with `first`, `not_finite`, `points`; `unread`.
    """

    job_id: _JobId
    attempt: Annotated[int, Meta(ge=1, le=10**9)] | None = None  # else the latest that has metrics
    patience_ms: _Patience = 10_000


class Curves(Request, tag="curves"):
    """One metric of many jobs, the points of a sweep or some ids, to be seen in one picture.

    Answer: `names`, the metrics that there are, each `[name, how many jobs have it]`; `name` and
    `goal` of the one that is shown, null if there is none; `total`, how many jobs have it; `best`,
    the job that is the best as results have it, null if none is;
    `curves` of at most `most` of them, the best first, then a spread of the rest, as those of
    Curve but thinned to about so many `points`; `unread`.
    """

    sweep: _Text | None = None
    ids: Annotated[list[_JobId], Meta(max_length=1000)] = []
    name: _Text | None = None  # else the objective of the search, or by what names tell
    goal: Literal["min", "max"] | None = None  # which values are best
    most: Annotated[int, Meta(ge=1, le=1000)] = 200
    points: Annotated[int, Meta(ge=4, le=1000)] = 1000
    patience_ms: _Patience = 10_000
