"""A job as a request has it (see `messages`): its fields follow from the table of job options."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from stoker.api.field_types import type_of
from stoker.api.job_options import JOB_OPTIONS

Priority = Annotated[int, Meta(ge=-1_000_000_000, le=1_000_000_000)]

_NO_OPTIONS: list[tuple[str, Any, Any]] = [
    ("argv", list[str], []),  # run as they are, or ...
    ("shell", str | None, None),  # ... one string for the login shell
    ("params", dict[str, Any], {}),  # of the point of a sweep that the job is
    ("point", Annotated[str, Meta(max_length=100)] | None, None),  # names that point: see Points
    ("repeat", Annotated[str, Meta(max_length=1000)] | None, None),  # the parameter of --repeat
]


if TYPE_CHECKING:

    class JobRequest(Struct, kw_only=True):
        """One job to be queued; its fields are those of the table of job options."""

        def __getattr__(self, name: str) -> Any: ...
else:
    JobRequest = msgspec.defstruct(
        "JobRequest",
        [
            *_NO_OPTIONS,
            *(
                (field.name, type_of(field), field.default)
                for option in JOB_OPTIONS
                for field in option.fields
            ),
        ],
        kw_only=True,
        forbid_unknown_fields=True,
        module=__name__,
        namespace={"__doc__": "One job to be queued; what is absent has the documented default."},
    )


class JobOwn(Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """What one of many alike jobs has for itself: see Submit. With a command it has no other."""

    argv: tuple[str, ...] = ()
    shell: str | None = None
    name: str | None = None
    priority: Priority | None = None
    out: str | None = None
    err: str | None = None
    params: dict[str, Any] | None = None
    point: Annotated[str, Meta(max_length=100)] | None = None
