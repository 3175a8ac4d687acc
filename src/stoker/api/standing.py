"""Where a state is kept, on what kind of file system, and which machine has it: for those who ask.

Nothing is made or changed, and no daemon is needed.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from stoker.api import filesystems
from stoker.api.claim import OnAnotherMachine, check, read_claim, whose
from stoker.errors import Failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.api.paths import Home


def standing(home: Home) -> dict[str, Any]:
    """Whose a state is and where it is kept."""
    kind = filesystems.kind_of(home.root)
    claim = read_claim(home)
    known = claim if claim is not None and claim.is_known else None
    return {
        "file_system": kind or None,
        "is_shared": filesystems.is_shared(kind),
        "logs": os.path.dirname(os.path.realpath(home.attempts)) if home.kept_in else None,
        "host": known and known.place.host,
        "user": known and known.user,
        "since_at_ms": known and known.since_ms,
        "is_here": claim is None or claim.is_ours(shared=filesystems.is_shared(kind)),
        "claim": None if claim is None else whose(claim),
    }


class Finding(NamedTuple):
    """Something about a home, and what to do if it is not as it should be."""

    is_right: bool
    text: str
    hint: str = ""


def findings(home: Home) -> list[Finding]:
    """What there is to say about a home: first where it is, then which machine has it."""
    try:
        return [_where(home), *_whose(home)]
    except Failed as error:
        return [Finding(False, error.message, error.hint)]


def _where(home: Home) -> Finding:
    kind = filesystems.kind_of(home.root)
    state = f"state is in {home.root} ({kind or 'unknown file system'})"
    if home.kept_in:
        usual = f"{home.kept_in} is on {filesystems.kind_of(home.kept_in)}"
        return Finding(True, f"{usual}, so {state}, and logs are in {home.kept_in}/hosts")
    if filesystems.is_shared(kind):
        hint = "only one machine can use it at a time; better set STOKER_HOME to a local disk"
        return Finding(False, state, hint)
    if not filesystems.lasts(kind):
        hint = "it is lost when the machine restarts; set STOKER_HOME to a disk"
        return Finding(False, state, hint)
    return Finding(True, state)


def _whose(home: Home) -> list[Finding]:
    try:
        claim = check(home)
    except OnAnotherMachine as refused:
        return [Finding(False, refused.message, refused.hint)]
    return [] if claim is None else [Finding(True, f"in use by this machine: {whose(claim)}")]
