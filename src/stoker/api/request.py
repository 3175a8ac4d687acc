"""The bases of the messages that ask something of the daemon."""

from typing import Annotated

from msgspec import Meta, Struct

# As much as the store can look for at once.
Names = Annotated[list[Annotated[str, Meta(max_length=1000)]], Meta(max_length=1000)]


class Request(Struct, tag_field="op", forbid_unknown_fields=True, kw_only=True):
    """The base of every request; its tag is the `op`."""


class Select(Struct, forbid_unknown_fields=True, kw_only=True):
    """Which jobs are meant: the union of what is named. Resolved by the daemon, in one place.

    `text` and `states` narrow it; `text` alone means all that match.
    """

    ids: list[str] = []  # "7", "3-9", "last"
    names: Names = []  # exact names or shell patterns such as "run-*"
    group: str | None = None
    all: bool = False  # all for which the request makes sense
    states: Annotated[list[str], Meta(max_length=20)] = []  # of these, only those in such a state
    text: Annotated[str, Meta(max_length=1000)] = ""  # a filter: see api.job_filter


class OfJobs(Request, kw_only=True):
    """The base of requests about some jobs."""

    select: Select
