"""A daemon of another version than its client: it does not know all the words of the other.

After an upgrade the daemon that was started before goes on until it is restarted. What it says of
a field that it does not know is true, and of no use to a user. A library in another environment may
be older or newer than the daemon, too. So the daemon writes down, before it listens, which protocol
and version it has; what clients pay for it is to read a short file.
"""

from __future__ import annotations

import os

import stoker
from stoker.api.paths import PROTOCOL, Home
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


# --- which version the daemon has -----------------------------------------------------------------


def announce(home: Home) -> None:
    """By the daemon: write down its protocol and version; without room for it, nothing is known."""
    try:
        _write(home.version, f"{PROTOCOL} {stoker.__version__}\n")
    except OSError:
        pass


def compare(said: str, home: Home) -> None:
    """By a client, of what another version has written: refuse it, or tell that it is old."""
    protocol, _, version = said.strip().partition(" ")
    own = stoker.__version__
    if not protocol.isdigit() or not version:
        return
    if int(protocol) < PROTOCOL:
        what = f"the daemon is Stoker {version}, which does not understand this one ({own})"
        raise Unavailable(what, "run `stoker daemon restart`; jobs continue")
    if int(protocol) > PROTOCOL:
        import sys

        what = f"the daemon is Stoker {version}, and this one ({own}) is too old for it"
        raise Unavailable(what, f"upgrade stoker-gpu in {sys.prefix}")
    if _numbers(version) < _numbers(own) and _is_news(f"{version} {own}\n", home):
        text = f"the daemon is still version {version}, and this is {own}"
        os.write(2, f"stoker: {text}; `stoker daemon restart` updates it, jobs continue\n".encode())


def _is_news(text: str, home: Home) -> bool:
    """Whether this was not told before; it is noted as told."""
    told = f"{home.version}.told"
    try:
        with open(told, encoding="utf-8") as file:
            if file.read() == text:
                return False
    except OSError:
        pass
    try:
        _write(told, text)
    except OSError:
        pass
    return True


def _write(path: str, text: str) -> None:
    made = f"{path}.{os.getpid()}"
    with open(os.open(made, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(text)
    os.replace(made, path)


def _numbers(version: str) -> list[int]:
    """A version to compare by: what is not a number counts as nothing."""
    return [int(part) if part.isdigit() else 0 for part in version.split("+")[0].split(".")]
