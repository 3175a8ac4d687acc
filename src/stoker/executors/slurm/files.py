"""The files by which the daemon and the nodes of a cluster agree about an attempt.

| file      | by       | meaning                                                                |
|-----------|----------|------------------------------------------------------------------------|
| `order`   | daemon   | what is to be run                                                      |
| `batch`   | daemon   | the submission that it is part of, its place in it, its name at Slurm  |
| `start`   | anyone   | made once: by the first start, or by the daemon to prevent any         |
| `told`    | node     | the cluster wanted it to end                                           |
| `refused` | node     | it could not be started, and why                                       |
| `exit`    | node     | how it ended                                                           |

A second start that finds `start` gives way, whatever the controller of the cluster thinks.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path

from stoker.core.commands import HandOver
from stoker.core.model import Launch
from stoker.executors.attempt_dir import attempt_dir_text, make_attempt_dir
from stoker.executors.checkpoint_dir import (
    checkpoint_text,
    link_checkpoint_dir,
    make_checkpoint_dir,
)  # fmt: skip
from stoker.executors.environment import (
    CHECKPOINT_DIR,
    MARKER,
    METRICS,
    RESUMES,
    command_line,
    marker,
    of_job,
)  # fmt: skip
from stoker.executors.spawn import named_files
from stoker.wholefile import write_whole

_WITHDRAWN = "withdrawn"
_OF_MEMORY = re.compile(
    rb"^slurmstepd[^\n]*(exceeded [^\n]*memory limit|oom.kill|out.of.memory)",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Started:
    """Who made `start`: a node, with what Slurm calls the attempt there; or we ourselves."""

    node: str
    slurm_id: str
    restarts: int
    gpus: tuple[str, ...]
    at_ms: int

    @property
    def withdrawn(self) -> bool:
        """True if it was made only to prevent a start."""
        return self.node == _WITHDRAWN


class Files:
    """The directories of attempts and batches under one root that nodes and daemon share.

    `home` is where all look for an attempt's directory; if the root is elsewhere, there is
    a link to it.
    """

    def __init__(self, home: Path, shared: Path | None) -> None:
        self._home = str(home)
        self._root = str(home if shared is None else shared / "attempts")
        self._batches = f"{home.parent if shared is None else shared}/batches"

    def directory(self, key: tuple[int, int]) -> str:
        """Where an attempt has its files, as the nodes see it."""
        path = attempt_dir_text(self._home, *key)
        return os.path.realpath(path) if os.path.islink(path) else path

    def prepare(
        self, order: HandOver, launch: Launch, instance: str, batch: str, index: int, name: str
    ) -> str:
        """Put down what a node needs to run the attempt; its directory."""
        key = (order.job_id, order.attempt)
        directory = attempt_dir_text(self._root, *key)
        make_attempt_dir(directory)
        link = attempt_dir_text(self._home, *key)
        if link != directory and not os.path.lexists(link):
            os.makedirs(os.path.dirname(link), 0o700, exist_ok=True)
            os.symlink(directory, link)
        write_whole(f"{directory}/order", self._order(order, launch, instance))
        write_whole(f"{directory}/batch", f"{batch} {index} {name}\n".encode())
        os.symlink(directory, f"{self._batches}/{batch}/{index}")
        return directory

    def _order(self, order: HandOver, launch: Launch, instance: str) -> bytes:
        said, launch = launch, named_files(launch, order.job_id, order.attempt)
        for path in {launch.out, launch.err} - {said.out, said.err, None}:
            with suppress(OSError):  # The node says what is wrong with it.
                os.makedirs(os.path.dirname(str(path)), exist_ok=True)
        checkpoints = checkpoint_text(self._root, order.job_id, launch.point)
        if order.resumes is not None:
            make_checkpoint_dir(checkpoints)
            link_checkpoint_dir(
                checkpoint_text(self._home, order.job_id, launch.point), checkpoints
            )
        # Which GPUs they are is known only on the node.
        env = {
            **launch.env,
            **launch.extra_env,
            "PWD": launch.cwd,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            **of_job(launch, order.group),
            "STOKER_JOB_ID": str(order.job_id),
            "STOKER_ATTEMPT": str(order.attempt),
            METRICS: f"{self.directory((order.job_id, order.attempt))}/metrics",
            CHECKPOINT_DIR: checkpoints,
            RESUMES: str(order.resumes or 0),
            MARKER: marker(instance, order.job_id, order.attempt),
        }
        words = command_line(launch, ())
        required = [
            self.directory((other.job_id, other.attempt))
            for other in order.after
            if other.must_succeed
        ]
        fields = [
            launch.cwd,
            launch.out or "",
            launch.err or "",
            "1" if launch.appends(order.attempt) else "0",
            "1" if launch.gpu_arg else "0",
            "1" if launch.shell is not None else "0",
            str(-(-order.terms.grace_ms // 1000)),
            _signal_name(order.terms.signal),
            "" if launch.umask is None else str(launch.umask),
            str(len(required)),
            *required,
            str(len(words)),
            *words,
            *(f"{name}={value}" for name, value in env.items()),
        ]
        return b"".join(field.encode(errors="surrogateescape") + b"\0" for field in fields)

    # ------------------------------------------------------------------ batches

    def make_batch(self, batch: str, lines: tuple[tuple[str, ...], ...]) -> str:
        """The directory of a submission, with its script; the path of the script."""
        path = f"{self._batches}/{batch}"
        os.makedirs(self._batches, 0o700, exist_ok=True)
        os.mkdir(path, 0o700)
        node_script = (package_files("stoker.executors.slurm") / "node.pl").read_text("utf-8")
        first, _, rest = node_script.partition("\n")
        said = "".join(f"#SBATCH {' '.join(map(_quoted, words))}\n" for words in lines)
        write_whole(f"{path}/script", f"{first}\n{said}{rest}".encode())
        return f"{path}/script"

    def batch_path(self, batch: str) -> str:
        """Where a submission has its links to attempts."""
        return f"{self._batches}/{batch}"

    def was_withdrawn(self, batch: str, index: int) -> bool:
        """True if an attempt of a submission can't start any more, and never did."""
        started = read_start(f"{self._batches}/{batch}/{index}")
        return started is not None and started.withdrawn

    def has_ended(self, batch: str, index: int) -> bool:
        """True if an attempt of a submission began, and is over by its own word."""
        path = f"{self._batches}/{batch}/{index}"
        return os.path.exists(f"{path}/exit") or os.path.exists(f"{path}/refused")

    def batches(self) -> list[str]:
        """The submissions that have a directory."""
        try:
            return sorted(os.listdir(self._batches))
        except FileNotFoundError:
            return []

    def forget_batch(self, batch: str) -> None:
        """Delete the directory of a submission; those of its attempts stay."""
        path = f"{self._batches}/{batch}"
        with suppress(OSError):  # The next round tries again.
            for name in os.listdir(path):
                os.unlink(f"{path}/{name}")
            os.rmdir(path)


# ---------------------------------------------------------------------- one attempt


def submitted_as(directory: str) -> tuple[str, int, str] | None:
    """The submission that the attempt is part of, its place in it, and its name at Slurm."""
    match _read(directory, "batch").split():
        case [batch, index, name] if index.isdecimal():
            return batch, int(index), name
    return None


def read_start(directory: str) -> Started | None:
    """What started the attempt, if anything has."""
    text = _read(directory, "start")
    if not text:
        return None
    words = text.split()
    if len(words) != 5 or not text.endswith("\n"):
        return None
    try:
        at_ms = int(os.stat(f"{directory}/start").st_mtime * 1000)
    except OSError:
        return None
    gpus = () if words[4] == "-" else tuple(words[4].split(","))
    return Started(words[0], words[2], int(words[3]) if words[3].isdecimal() else 0, gpus, at_ms)


def withdraw(directory: str) -> bool:
    """Prevent any start of the attempt; False if there was one."""
    own = f"{directory}/start.{_WITHDRAWN}.{os.getpid()}"
    try:
        with open(own, "w", encoding="ascii") as file:
            file.write(f"{_WITHDRAWN} 0 - 0 -\n")
    except FileNotFoundError:
        return True  # Without its directory no start can come to anything.
    try:
        os.link(own, f"{directory}/start")
    except FileExistsError:
        started = read_start(directory)
        return started is not None and started.withdrawn
    finally:
        os.unlink(own)
    return True


def was_told_to_stop(directory: str) -> bool:
    """True if the cluster wanted it to end."""
    return os.path.exists(f"{directory}/told")


def took_too_much_memory(directory: str) -> bool:
    """True if Slurm's own last words in the log are that it was killed for its memory."""
    try:
        with open(f"{directory}/log", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4000))
            return _OF_MEMORY.search(file.read()) is not None
    except OSError:
        return False


def read_refusal(directory: str) -> tuple[str, str] | None:
    """Why a node did not start it: `start` or `requirement`, and the particulars."""
    kind, _, why = _read(directory, "refused").strip().partition(" ")
    return (kind, why) if kind else None


def refresh(directory: str) -> None:
    """Let a network file system look again: to list a directory asks its server."""
    with suppress(OSError):
        os.listdir(directory)


def _read(directory: str, name: str) -> str:
    try:
        with open(f"{directory}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read(4000)
    except OSError:
        return ""


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _signal_name(number: int | None) -> str:
    import signal

    return "" if number is None else signal.Signals(number).name.removeprefix("SIG")
