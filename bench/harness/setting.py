"""What a row is given to work with."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from side_by_side import HERE, Load, timed

if TYPE_CHECKING:
    from harness.long_queue import LongQueue


@dataclass(slots=True)
class Setting:
    """One run: where it may write, and how thorough it is."""

    scratch: Path
    quick: bool = False
    rounds: int | None = None
    slots: int = 4
    _programs: dict[str, Path] = field(default_factory=dict)
    queues: dict[str, LongQueue] = field(default_factory=dict)  # shared by several rows

    def load(self, jobs: int) -> Load:
        """So many jobs, on the slots of this run."""
        return Load(jobs, self.slots, self.scratch)

    def so_many(self, usual: int, quick: int) -> int:
        """A size that is smaller in a quick run."""
        return quick if self.quick else usual

    def times(self, usual: int, quick: int = 1) -> int:
        """How many rounds."""
        return self.rounds or self.so_many(usual, quick)

    def say(self, text: str) -> None:
        """A word on how it goes."""
        print(text, file=sys.stderr, flush=True)

    def program(self, name: str) -> Path:
        """One of the little C programs, compiled on the spot."""
        if name not in self._programs:
            compiler = shutil.which("cc") or shutil.which("gcc")
            if compiler is None:
                sys.exit("bench: no C compiler; `make bench` installs one where it may")
            program = self.scratch / name
            source = HERE / f"{name}.c"
            # Static: to load libraries would be part of what is measured.
            how = ("-O2", "-Wall", "-static")
            subprocess.run([compiler, *how, "-o", program, source], check=True)
            self._programs[name] = program
        return self._programs[name]

    def close(self) -> None:
        """End what rows have shared."""
        for queue in self.queues.values():
            queue.close()
        self.queues.clear()


def bare_python_s(times: int = 9) -> float:
    """The median time of `python -c pass`: a yardstick of this machine, in these minutes."""
    return statistics.median(timed([sys.executable, "-c", "pass"]) for _ in range(times))
