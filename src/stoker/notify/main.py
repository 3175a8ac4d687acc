"""The sender: one batch of messages and hooks, handed over by the daemon on stdin.

Law: it never ends in the middle because the daemon does. What it has begun it finishes, and puts on
record (see `journal`), so that the next daemon knows. Of jobs it knows what it is handed; for the
best point of a sweep it asks the daemon that is there (see `best`).
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import signal
import socket
import sys
import time
from pathlib import Path
from subprocess import TimeoutExpired
from types import FrameType
from typing import Any

from stoker.command_lines import SENDER_MARKER
from stoker.notify import hooks
from stoker.notify.journal import HOOK, SENDING, Journal, known_as
from stoker.notify.words import message, severity

_LOOK_AGAIN_S = 0.05
_LONGEST_SEND_S = 120
_HOOKS_END_WITHIN_S = 30.0


def main() -> int:
    """Send the batch on stdin; the argument is the directory of the journal."""
    directory = Path(sys.argv[1])
    batch = json.loads(sys.stdin.buffer.read())
    logging.getLogger("apprise").addHandler(logging.NullHandler())
    logging.getLogger("apprise").propagate = False  # It may say addresses.
    if not _alone(directory / "lock"):
        return 0
    journal = Journal(directory / "journal", batch["floor"])
    notices = batch["notices"]
    begun = _start_hooks([n for n in notices if n["what"] == HOOK], journal, directory)
    _send_all([n for n in notices if n["what"] != HOOK], batch["urls"], journal)
    deadline = time.monotonic() + _HOOKS_END_WITHIN_S
    for job_id, process in begun:
        try:
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except TimeoutExpired:
            continue  # It goes on by itself.
        if code:
            _say(f"the hook of job {job_id} ended with exit code {code}; see {directory}/hooks.log")
    return 0


def _best_point(sweep: str) -> str:
    from stoker.notify.best import best_point  # It takes longer to load than all else together.

    return best_point(sweep)


def _alone(path: Path) -> bool:
    """Wait for the sender of a daemon that is gone; False if ours is gone too by then.

    The lock goes with this process, and not with hooks.
    """
    daemon = os.getppid()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if os.getppid() != daemon:
                return False
            time.sleep(_LOOK_AGAIN_S)


def _start_hooks(notices: list[dict[str, Any]], journal: Journal, directory: Path) -> list[Any]:
    begun = []
    own = {name: os.environ[name] for name in ("STOKER_HOME", SENDER_MARKER) if name in os.environ}
    log = hooks.output(directory) if notices else -1
    for notice in notices:
        key = (notice["id"], HOOK)
        # One that may have been started before is not started again: a hook may do anything.
        if journal.is_done(*key) or journal.did.get(key) == SENDING:
            journal.end(key, None)
            continue
        journal.begin(key)
        try:
            begun.append((notice["subject"], hooks.start(notice, own, log)))
            journal.end(key, None)
        except (OSError, ValueError) as error:
            journal.end(key, str(error))
    return begun


def _send_all(notices: list[dict[str, Any]], urls: list[str], journal: Journal) -> None:
    host, failing = socket.gethostname(), dict[str, str]()
    for notice in notices:
        left = [url for url in urls if not journal.is_done(notice["id"], known_as(url))]
        if not left:
            continue
        title, text = message(notice, host, _best_point)
        kind = severity(notice)
        for url in left:
            key = (notice["id"], known_as(url))
            if url in failing:  # It is not asked again and again within one batch.
                journal.end(key, failing[url])
                continue
            again = journal.did.get(key) == SENDING
            note = "\n(Stoker was killed while it sent this: it may be a second copy.)"
            journal.begin(key)
            why = _send(url, kind, title, text + note if again else text)
            journal.end(key, why)
            if why is not None:
                failing[url] = why


class _TookTooLong(Exception):
    pass


def _ring(number: int, frame: FrameType | None) -> None:
    raise _TookTooLong


def _send(url: str, kind: str, title: str, text: str) -> str | None:
    """Send one message; None, or why that did not work, without what is secret in the address."""
    signal.signal(signal.SIGALRM, _ring)
    signal.alarm(_LONGEST_SEND_S)
    try:
        import apprise

        service = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Stoker", app_desc="Stoker"))
        if not service.add(url):
            return "Apprise does not understand this address"
        with apprise.LogCapture(level=logging.WARNING) as said:  # type: ignore[no-untyped-call]
            if service.notify(
                title=title,
                body=text,
                notify_type=apprise.NotifyType(kind),
                body_format=apprise.NotifyFormat.TEXT,
            ):
                return None
            complaint = (said.getvalue().strip().splitlines() or ["it was refused"])[0]
        return without_secrets(complaint, url)
    except _TookTooLong:
        return f"no answer within {_LONGEST_SEND_S} s"
    except Exception as error:
        return without_secrets(f"{type(error).__name__}: {error}", url)
    finally:
        signal.alarm(0)


def without_secrets(text: str, url: str) -> str:
    """The text without any part of the address but its first word."""
    for part in sorted(re.split(r"[^\w.+-]+", url)[1:], key=len, reverse=True):
        if len(part) > 2:
            text = text.replace(part, "***")
    return text[:300]


def _say(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} WARNING {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
