"""The demo: a few example commands on four declared GPUs, shown live, and a table at the end.

It has a Stoker of its own in a temporary directory, and leaves nothing behind: the daemon is
stopped and the directory deleted however the demo ends.
"""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from fcntl import ioctl
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
REDRAW_S = 0.5
AT_MOST_S = 120.0

GPUS = "stoker config set gpus 0-3:24G"
EXAMPLES = (
    "stoker add --gpus 0 --name prepare -- python train.py --seconds 1",
    "stoker add --name base -- python train.py --seconds 3",
    "stoker add --gpus 2 --name big -- python train.py --seconds 4",
    "stoker add --mem 10G --name small-a -- python train.py --seconds 3 --lr 0.05",
    "stoker add --mem 12G --name small-b -- python train.py --seconds 3 --lr 0.02",
    "stoker add --name lr-0.3 -- python train.py --seconds 2 --lr 0.3",
    "stoker add --name lr-0.2 -- python train.py --seconds 2 --lr 0.2",
    "stoker add --name lr-0.1 -- python train.py --seconds 2 --lr 0.1",
    "stoker add --name diverges -- python train.py --seconds 2 --fail 3",
    "stoker add --gpus 0 --after 2 --name evaluate -- python train.py --seconds 1",
    "stoker add --gpus 0 --after 9 --name publish -- python train.py --seconds 1",
)
EXPECTED = {"diverges": ("failed", 3), "publish": ("skipped", None)}
FINAL = frozenset({"succeeded", "failed", "cancelled", "skipped", "lost"})

Job = dict[str, Any]


class Interrupted(Exception):
    """The user, or the system, wants the demo to end."""


def interrupt(number: int, frame: FrameType | None) -> None:
    """Turn a signal into an end in good order."""
    raise Interrupted


class Demo:
    """One run, on a home of its own."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._env = {
            **os.environ,
            "STOKER_HOME": str(home),
            "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }

    def run(self) -> int:
        """Queue the examples, watch them, and show where they ran."""
        print("Four GPUs of 24 GiB are declared, so that no driver is needed:\n")
        self.show(GPUS)
        print("\nA few jobs are queued; each prints its id:\n")
        for command in EXAMPLES:
            self.show(command)
        print()
        jobs = self.watch_live() if sys.stdout.isatty() else self.watch_plainly()
        print("\nWhat ran where:\n")
        self.show("stoker ls --all")
        print("\nThe output of a job, which saw only its own GPUs:\n")
        self.show("stoker logs --name big")
        return verdict(jobs)

    def show(self, command: str) -> None:
        """Print a command as it would be typed, and run it."""
        print(f"$ {command}", flush=True)
        subprocess.run(shlex.split(command), env=self._env, cwd=HERE, check=True)

    def jobs(self) -> list[Job]:
        """All jobs, as scripts see them."""
        done = subprocess.run(
            ["stoker", "ls", "--all", "--json"],
            env=self._env,
            cwd=HERE,
            check=True,
            stdout=subprocess.PIPE,
        )
        jobs: list[Job] = json.loads(done.stdout)["jobs"]
        return jobs

    def watch_live(self) -> list[Job]:
        """Draw the status over and over in the same place until every job has ended."""
        deadline = time.monotonic() + AT_MOST_S
        drawn = 0
        while True:
            jobs = self.jobs()
            size = os.get_terminal_size(sys.stdout.fileno())
            lines = self.status_in_colour(size).splitlines()[: size.lines - 1]
            up = f"\x1b[{drawn}A" if drawn else ""
            sys.stdout.write(f"\r{up}\x1b[J" + "".join(f"{line}\n" for line in lines))
            sys.stdout.flush()
            drawn = len(lines)
            if all_final(jobs) or time.monotonic() > deadline:
                return jobs
            time.sleep(REDRAW_S)

    def status_in_colour(self, size: os.terminal_size) -> str:
        """What `stoker` prints on a terminal of this size."""
        ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size.lines, size.columns, 0, 0))
        with subprocess.Popen(["stoker"], env=self._env, cwd=HERE, stdout=theirs) as process:
            os.close(theirs)
            chunks = []
            try:
                while chunk := os.read(ours, 65536):
                    chunks.append(chunk)
            except OSError:
                pass  # This is how a terminal says that nobody writes to it any more.
            finally:
                os.close(ours)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, "stoker")
        return b"".join(chunks).decode(errors="replace")

    def watch_plainly(self) -> list[Job]:
        """A line for each change until every job has ended."""
        began = time.monotonic()
        seen: dict[int, str] = {}
        while True:
            jobs = self.jobs()
            for job in jobs:
                words = standing(job)
                if seen.get(job["id"]) != words:
                    seen[job["id"]] = words
                    print(f"{time.monotonic() - began:5.1f} s  {words}", flush=True)
            if all_final(jobs) or time.monotonic() - began > AT_MOST_S:
                return jobs
            time.sleep(REDRAW_S)

    def clean_up(self) -> None:
        """Stop the daemon with whatever still runs, and delete the home."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        # A daemon that is only just starting is waited for, so that it is stopped too.
        for verb in (["start"], ["stop", "--kill"]):
            subprocess.run(
                ["stoker", "daemon", *verb],
                env=self._env,
                cwd=HERE,
                check=False,
                stderr=subprocess.DEVNULL,
            )
        shutil.rmtree(self._home.parent)


def all_final(jobs: list[Job]) -> bool:
    """True if nothing more will happen."""
    return all(job["state"] in FINAL for job in jobs)


def standing(job: Job) -> str:
    """Where a job stands, in a line."""
    where = f" on GPU {','.join(job['gpus'])}" if job["gpus"] else ""
    why = f": {job['reason']}" if job["reason"] else ""
    return f"job {job['id']:>2}  {job['name']:<9} {job['state']}{where}{why}"


def verdict(jobs: list[Job]) -> int:
    """0 if every job ended as it should have."""
    wrong = [
        standing(job)
        for job in jobs
        if (job["state"], job["exit_code"]) != EXPECTED.get(job["name"], ("succeeded", 0))
    ]
    for words in wrong:
        print(f"demo: this is not what should have come of it: {words}", file=sys.stderr)
    return int(bool(wrong) or len(jobs) != len(EXAMPLES))


def main() -> int:
    """Run the demo."""
    if not os.access(BIN / "stoker", os.X_OK):
        print(f"demo: {BIN} has no `stoker`; `make demo` sets it up", file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    demo = Demo(Path(tempfile.mkdtemp(prefix="stoker-demo-")) / "home")
    try:
        return demo.run()
    except Interrupted:
        print("\ndemo: interrupted; cleaning up", file=sys.stderr)
        return 130
    except subprocess.CalledProcessError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    finally:
        demo.clean_up()


if __name__ == "__main__":
    sys.exit(main())
