"""A daemon of another version than its client: it does not know all the words of the other.

After an upgrade the daemon that was started before goes on until it is restarted. What it says of
a field that it does not know is true, and of no use to a user.
"""

from __future__ import annotations

from stoker.errors import StokerError, Unavailable

NOT_UNDERSTOOD = "the message can't be understood: "
HINT = "if Stoker was upgraded, `stoker daemon restart` updates the daemon; jobs continue"


def is_skew(why: str) -> bool:
    """Whether a message was refused for a word that another version may know."""
    return "unknown field" in why or "`$.op`" in why


def explained(error: StokerError) -> StokerError:
    """What a daemon has said, in the words of a user if it is of another version."""
    why = error.message.removeprefix(NOT_UNDERSTOOD)
    if why == error.message or not is_skew(why):
        return error
    return Unavailable(f"the daemon does not understand a request of this version: {why}", HINT)
