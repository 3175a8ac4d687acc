"""Slurm's client commands as child processes that are not waited for.

A controller that is down lets each of them hang for seconds, so a call is started, its descriptor
is watched, and its answer is read when it is there; one that takes too long is killed.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.executors import file_limit
from stoker.executors.environment import MARKER

# The controller was not reached, or could not say whether it has done what it was asked to.
_NO_ANSWER = re.compile(
    r"unable to contact|connect failure|connection refused|socket timed out|zero bytes were"
    r"|timed out|communication connection failure|message receive failure|transport endpoint"
    r"|message send failure|insane message length|header lengths are longer"
    r"|could not establish a configuration source|resource temporarily unavailable",
    re.IGNORECASE,
)
# It has answered, and may say something else later.
_NOT_NOW = re.compile(
    r"temporarily unable to accept job|submitjob|submit job limit|job violates accounting/qos"
    r"|max.*submit|job count limit|too many jobs|slurm temporarily|system busy|try again",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call. With `silent` the controller was not heard at all."""

    ok: bool
    out: bytes
    error: str
    silent: bool
    not_now: bool
    took_s: float


class Call:
    """One client command on its way. `fileno` becomes readable when it has ended."""

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        timeout_s: float,
        keeps_open: int | None = None,
    ) -> None:
        self.words = list(words)
        self._began = time.monotonic()
        self.deadline = self._began + timeout_s
        self._out = os.memfd_create("stoker-out", os.MFD_CLOEXEC)
        self._err = os.memfd_create("stoker-err", os.MFD_CLOEXEC)
        self._error: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        try:
            self._process = subprocess.Popen(
                self.words if keeps_open is None else _with_limits_of_jobs(self.words),
                stdin=subprocess.DEVNULL,
                stdout=self._out,
                stderr=self._err,
                env=dict(env),
                cwd="/",
                pass_fds=() if keeps_open is None else (keeps_open,),
                start_new_session=True,
            )
            self._pidfd = os.pidfd_open(self._process.pid)
        except OSError as error:
            self._error = f"{words[0]}: {os.strerror(error.errno or 0)}"

    def fileno(self) -> int:
        """Readable when the command has ended; -1 if it could not even be started."""
        return self._pidfd

    def answer(self) -> Answer | None:
        """What came of it; None while it goes on."""
        if self._process is None:
            return self._answer(False, self._error or "", silent=True)
        code = self._process.poll()
        if code is None and time.monotonic() < self.deadline:
            return None
        if code is None:
            self._process.kill()
            self._process.wait()
            return self._answer(False, f"{self.words[0]} took too long", silent=True)
        error = _whole(self._err).decode(errors="replace").strip()
        silent = code != 0 and _NO_ANSWER.search(error) is not None
        return self._answer(code == 0, error, silent)

    def _answer(self, ok: bool, error: str, silent: bool) -> Answer:
        out = _whole(self._out)
        self.close()
        not_now = not ok and not silent and _NOT_NOW.search(error) is not None
        return Answer(ok, out, error, silent, not_now, time.monotonic() - self._began)

    def close(self) -> None:
        """Let go of the descriptors; a command that still goes on does so without us."""
        for fd in (self._out, self._err, self._pidfd):
            if fd >= 0:
                os.close(fd)
        self._out = self._err = self._pidfd = -1


def _with_limits_of_jobs(words: list[str]) -> list[str]:
    """For `sbatch`, which gives its limits to the jobs that it submits."""
    files = file_limit.for_jobs()
    if files is None:
        return words
    return ["/bin/sh", "-c", 'ulimit -S -n "$0"; exec "$@"', str(files[0]), *words]


def in_words(error: str) -> str:
    """An error message of Slurm's without the names of its programs."""
    lines = [re.sub(r"^\w+: (error|fatal): ", "", line).strip() for line in error.splitlines()]
    lines = [re.sub(r"^Batch job submission failed: ", "", line) for line in lines if line]
    return "; ".join(dict.fromkeys(lines))[:500]


def client_environment(own: Mapping[str, str]) -> dict[str, str]:
    """What Slurm's commands are to see of our environment.

    Not the user's settings for them (SBATCH_PARTITION, SQUEUE_FORMAT): they would change what we
    say and what we read. Times are told in UTC, and lists of array tasks are not cut short.
    """
    kept = {
        name: own[name]
        for name in ("PATH", "HOME", "USER", "LOGNAME", "SLURM_CONF", "LD_LIBRARY_PATH")
        if name in own
    }
    # The mark tells a keeper that such a process is no job that a dying daemon had just made.
    ours = {"LANG": "C.UTF-8", "TZ": "UTC", "SLURM_BITSTR_LEN": "0", MARKER: "slurm client"}
    return {**kept, **ours}


def _whole(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0) if size else b""
