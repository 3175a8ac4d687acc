"""What a request is refused with, and an error that a daemon reported as the exception it was."""

from __future__ import annotations

from stoker.errors import StokerError, Unreachable, UsageError, quoted


class Failed(StokerError):
    """The order was understood, but it can't be carried out as things stand."""


class AlreadyRunning(Failed):
    """Another daemon has the state directory."""

    code = "already_running"


class NoUnit(UsageError):
    """A bare number, which may mean one thing or another."""

    @classmethod
    def of(cls, text: str, likely: str, other: str) -> NoUnit:
        """With both of its meanings."""
        return cls(f"{quoted(text)} has no unit", f"{likely} or {other}?")


class NotFound(StokerError):
    """What the user named does not exist."""

    code = "not_found"
    exit_code = 3


class Unavailable(StokerError):
    """The world is in the way (disk full, daemon stopping): try again."""

    code = "unavailable"


class TooManyClients(Unavailable):
    """The daemon has no room for another client that stays: it may have later."""

    code = "too_many_clients"


_KINDS = (Failed, AlreadyRunning, UsageError, NotFound, Unreachable, Unavailable, TooManyClients)
for cls in (NoUnit, *_KINDS):
    cls.__module__ = StokerError.__module__  # which is where users import them from
BY_CODE: dict[str, type[StokerError]] = {cls.code: cls for cls in _KINDS}


def from_wire(error: dict[str, str]) -> StokerError:
    """The error that the daemon reported, as the exception that it was there."""
    cls = BY_CODE.get(error.get("code", ""), Failed)
    said = cls(error.get("message", "the daemon reported an error"), error.get("hint", ""))
    return said.about(error.get("option", ""))
