"""The messages about searches that learn: see `messages`."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from stoker.api.request import Request


class Searches(Request, tag="searches"):
    """Answer: `searches`, each `name`, `spec`, `state` (running, ended) and `progress`.

    With a name, only that one, and `points`: of each job `point`, `id`, `state`, `cause`, `params`,
    `attempt`. Of these only jobs with a higher id than `newest`, and those of `unsure`.
    With `brief`, no points and no `spec`, but `objectives` and `trouble`.
    """

    name: Annotated[str, Meta(max_length=1000)] | None = None
    newest: Annotated[int, Meta(ge=0)] = 0
    unsure: Sequence[int] = ()
    brief: bool = False


class SearchStart(Request, tag="search_start"):
    """Begin a search, or go on with it by another spec. A process of its own chooses its points.

    What the spec says is between front ends and that process (stoker.search.spec). `anew`: what was
    said of how far it is counts no more.
    """

    name: Annotated[str, Meta(min_length=1, max_length=1000)]
    spec: dict[str, Any]
    anew: bool = False


class StopEarly(Request, tag="stop_early"):
    """Stop this attempt of a point of a search, which has seen enough of it; `why` in words.

    Answer: `stopped`. One that has ended, or that is being stopped, keeps its own outcome.
    """

    job_id: int
    attempt: int
    why: Annotated[str, Meta(max_length=1000)]


class SearchTold(Request, tag="search_told"):
    """What the process of a search says of it: how far it is, and with `ended`, that it is over."""

    name: Annotated[str, Meta(max_length=1000)]
    progress: dict[str, Any]
    ended: bool = False
