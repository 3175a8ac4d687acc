"""The one tree of errors: the user's, the world's, and ours.

A message is one line that says what was wrong; `hint` says what to do, and `str` says both, as
Python shows an exception. The command line maps `exit_code` in one place; the socket carries
`code`. Our own mistakes are in `core.laws`.
"""


class StokerError(Exception):
    """Something that a person should be told in one line."""

    code = "failed"
    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class Failed(StokerError):
    """The order was understood, but it can't be carried out as things stand."""


class AlreadyRunning(Failed):
    """Another daemon has the state directory."""

    code = "already_running"


class UsageError(StokerError):
    """The user asked for something that makes no sense, or can never be had."""

    code = "usage"
    exit_code = 2


class NoUnit(UsageError):
    """A bare number, which may mean one thing or another."""

    def __init__(self, text: str, likely: str, other: str) -> None:
        super().__init__(f"{quoted(text)} has no unit", f"{likely} or {other}?")


class NotFound(StokerError):
    """What the user named does not exist."""

    code = "not_found"
    exit_code = 3


class Unreachable(StokerError):
    """The daemon does not answer."""

    code = "unreachable"
    exit_code = 4


class Unavailable(StokerError):
    """The world is in the way (disk full, daemon stopping): try again."""

    code = "unavailable"


class TooManyClients(Unavailable):
    """The daemon has no room for another client that stays: it may have later."""

    code = "too_many_clients"


_KINDS = (Failed, AlreadyRunning, UsageError, NotFound, Unreachable, Unavailable, TooManyClients)
BY_CODE: dict[str, type[StokerError]] = {cls.code: cls for cls in _KINDS}


def quoted(text: str) -> str:
    """The user's own words inside a message, cut short so that the message stays one line."""
    return f"'{text}'" if len(text) <= 60 else f"'{text[:57]}...'"


def from_wire(error: dict[str, str]) -> StokerError:
    """The error that the daemon reported, as the exception that it was there."""
    cls = BY_CODE.get(error.get("code", ""), Failed)
    return cls(error.get("message", "the daemon reported an error"), error.get("hint", ""))
