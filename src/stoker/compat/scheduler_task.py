"""One task of the older scheduler: an attached job whose output is also kept in a dated folder."""

from __future__ import annotations

import os
import time
from typing import Any

from stoker.cli.attached import AttachedProcess, CouldNotStart, NotGranted
from stoker.cli.attachment import NOT_FOUND, Attachment
from stoker.compat.guardian import Guardian
from stoker.compat.kept_output import KeptStream
from stoker.text.terminal import say

PORT = "__num__"  # a word of a task that stands for a port, by its first GPU
_FIRST_PORT, _PORTS_EACH = 3600, 100


def _for_gpu(argv: list[str], env: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """The words and variables of a task, as some versions of the older tool make them."""
    first = env.get("STOKER_GPUS", "").split(",")[0]
    if not first.isdecimal():
        return argv, env
    port = str(_FIRST_PORT + _PORTS_EACH * int(first))
    return [port if word == PORT else word for word in argv], {**env, "GPU": f"cuda{first}"}


class Kept:
    """Where one stream goes: the dated folder always, and the file that was named, if any."""

    def __init__(self, folder: str, own: str, named: str | None) -> None:
        self.folder = folder
        self.shown = named is None  # A file that was named takes the terminal's place.
        self.named = named
        self._own = own  # the name in the folder

    @property
    def path(self) -> str:
        """The file to tell the user of."""
        return self.named if self.named is not None else os.path.join(self.folder, self._own)

    def opened(self) -> list[int]:
        """Descriptors of the files, emptied."""
        os.makedirs(self.folder, exist_ok=True)
        files = [self._opened_in_folder()]
        if self.named is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
            files.append(os.open(self.named, flags, 0o666))
        return files

    def _opened_in_folder(self) -> int:
        stem, ending = os.path.splitext(self._own)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        number = 1
        while True:
            name = self._own if number == 1 else f"{stem}-{number}{ending}"
            try:
                return os.open(os.path.join(self.folder, name), flags, 0o666)
            except FileExistsError:
                number += 1


class Task(Attachment):
    """A job in this terminal that waits for its turn; `follow` gives its exit code."""

    def __init__(self, request: dict[str, Any], out: Kept, err: Kept) -> None:
        super().__init__(request)
        self._kept = (out, err)
        self.started_at = self.ended_at = 0.0  # seconds since the epoch; 0 if it never started

    def _begin(self, event: dict[str, Any]) -> None:
        """It is our turn: run the task here."""
        self._attempt = event["attempt"]
        assert self._job_id is not None
        with Guardian(self._job_id, event["dir"]):
            try:
                self._run(event)
            except NotGranted:
                pass  # The daemon says what became of the task.
            except (CouldNotStart, OSError) as error:
                why = str(error) if isinstance(error, CouldNotStart) else error.strerror
                passes = error.errno if isinstance(error, CouldNotStart) else 0
                self._report(error=why or "system error", errno=passes)
                if not passes:  # Else the daemon says when it may be tried again.
                    self._code = NOT_FOUND
                    say(f"scheduler: the task could not start: {why}")
            self._attempt = None

    def _run(self, event: dict[str, Any]) -> None:
        files: list[list[int]] = []
        streams: list[KeptStream] = []
        try:
            for number, kept in enumerate(self._kept, 1):
                targets = kept.opened()
                files.append(targets)
                streams.append(KeptStream(number, targets, kept.shown))
            out, err = streams
            process = AttachedProcess(
                *_for_gpu(event["argv"], event["env"]),
                self._request["cwd"],
                event["dir"],
                (out.path, err.path),
                namespace=event.get("namespace"),
            )
            self.started_at = time.time()
            self._report(pid=process.pid)
            for stream in streams:
                stream.start()
            self._code = process.wait()
            self.ended_at = time.time()
        finally:
            for stream in streams:
                stream.finish()
            for fd in (fd for targets in files for fd in targets):
                os.close(fd)
