"""What the function of a request gives back, from which its client is answered."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker.engine import Proposal

if TYPE_CHECKING:
    from stoker.daemon.main import Daemon as Daemon
else:
    Daemon = Any  # The daemon imports its requests, and they only use its parts.


@dataclass(frozen=True, slots=True)
class AfterTurn:
    """The answer is what the next turn decides: the field `name`, or without a name all fields."""

    proposal: Proposal
    name: str | None = None


# At once, after the next turn, or when something is done that takes its time.
Fields = dict[str, Any]
Later = Coroutine[Any, Any, Fields]
Reply = Fields | AfterTurn | Later
