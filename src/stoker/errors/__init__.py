"""The one tree of errors: the user's, the world's, and ours.

A message is one line that says what was wrong; `hint` says what to do, and `str` says both, as
Python shows an exception. The command line maps `exit_code` in one place; the socket carries
`code`. Our own mistakes are in `core.laws`.

A command that is refused nothing needs few of them, and to make a class takes a while: those in
`refusals` are looked up when they are first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from stoker.errors.refusals import BY_CODE as BY_CODE
    from stoker.errors.refusals import AlreadyRunning as AlreadyRunning
    from stoker.errors.refusals import Failed as Failed
    from stoker.errors.refusals import NotFound as NotFound
    from stoker.errors.refusals import NoUnit as NoUnit
    from stoker.errors.refusals import TooManyClients as TooManyClients
    from stoker.errors.refusals import Unavailable as Unavailable
    from stoker.errors.refusals import from_wire as from_wire


class StokerError(Exception):
    """Something that a person should be told in one line."""

    code = "failed"
    exit_code = 1
    option = ""  # the key of the option of a job that it is about, where that is known
    as_typed: tuple[str, str] | None = None  # message and hint before they were put into keywords

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def about(self, option: str) -> Self:
        """The same, said of an option of a job: a form shows it at its field."""
        self.option = option
        return self


class UsageError(StokerError):
    """The user asked for something that makes no sense, or can never be had."""

    code = "usage"
    exit_code = 2


class Unreachable(StokerError):
    """The daemon does not answer."""

    code = "unreachable"
    exit_code = 4


def quoted(text: str) -> str:
    """The user's own words inside a message, cut short so that the message stays one line."""
    return f"'{text}'" if len(text) <= 60 else f"'{text[:57]}...'"


def __getattr__(name: str) -> object:
    if name.startswith("__"):  # Python asks for some of its own, such as __path__.
        raise AttributeError(f"module 'stoker.errors' has no attribute {name!r}")
    import stoker.errors.refusals as refusals

    return getattr(refusals, name)
