"""A crash at every step of a simulated run: `python -m stoker.sim.sweep --seed 7 --jobs 200`.

The run is first made without a crash, and its fingerprint after each turn is kept. Then it is made
again, and at each step the process is forked: the child crashes right there, recovers, and goes on
until its fingerprint is one of those known, from where on the rest is known too, or to the end.
With a depth of 2 the recovery is crashed at each of its steps as well.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import traceback
from collections.abc import Hashable
from dataclasses import asdict, dataclass

from stoker.sim.agreement import check_end
from stoker.sim.faults import Crash, Steps
from stoker.sim.fingerprint import of_run
from stoker.sim.run import Faults, Simulation

# Every so many children go on to the very end although their fingerprint is known, to see that
# what is concluded from a known fingerprint is true.
TO_THE_END_ANYWAY = 100

MOST_TURNS = 20_000


class CrashFound(AssertionError):
    """A crash at some step broke something; the message has the steps and the child's traceback."""


@dataclass(slots=True)
class Swept:
    """What a sweep did."""

    seed: int
    jobs: int
    steps: int = 0
    crashes: int = 0
    rejoined: int = 0  # children that came to a known fingerprint
    ended: int = 0  # children that went to the end on a way of their own
    verified: int = 0  # children that rejoined, and were followed to the end nevertheless


class ForkingSteps(Steps):
    """Steps at each of which the process is forked, for the child to crash there."""

    def __init__(self, depth: int, swept: Swept) -> None:
        super().__init__()
        self.crashed_at: list[int] = []  # in this process; empty in the first
        self.forks = True
        self._depth = depth
        self._swept = swept
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)

    def take(self) -> None:
        """See Steps."""
        self.taken += 1
        if not self.forks:
            return
        child = os.fork()
        if child == 0:
            self.crashed_at.append(self.taken)
            self.forks = len(self.crashed_at) < self._depth
            raise Crash
        _, status = os.waitpid(child, 0)
        if status:
            if self.crashed_at:
                os._exit(1)  # The report is in the pipe, for the first process to read.
            raise CrashFound(self._reports() or f"the child at step {self.taken} died: {status}")
        if not self.crashed_at:
            for kind in self._reports():
                self._swept.crashes += 1
                self._swept.rejoined += kind in "rv"
                self._swept.verified += kind == "v"
                self._swept.ended += kind == "e"

    def report(self, text: str) -> None:
        """Tell the first process, which reads it once the child at its step is gone."""
        os.write(self._write_end, text.encode()[-60_000:])

    def close(self) -> None:
        """Give the pipe back."""
        os.close(self._read_end)
        os.close(self._write_end)

    def _reports(self) -> str:
        try:
            return os.read(self._read_end, 65_536).decode(errors="replace")
        except BlockingIOError:
            return ""


def sweep(seed: int, jobs: int, depth: int = 1, faults: Faults | None = None) -> Swept:
    """Crash at every step; raises CrashFound at the first that breaks anything."""
    known = _base_run(seed, jobs, faults)
    swept = Swept(seed, jobs)
    steps = ForkingSteps(depth, swept)
    gc.collect()
    gc.freeze()  # A collection in a child would copy every page that it shares with its parent.
    try:
        _forked_run(Simulation(seed, jobs, steps, faults), steps, known)
    except CrashFound:
        raise
    except BaseException:
        if not steps.crashed_at:
            raise
        where = f"seed {seed}, {jobs} jobs, crashed at {steps.crashed_at}\n"
        steps.report(where + traceback.format_exc())
        os._exit(1)
    finally:
        gc.unfreeze()
        steps.close()
    swept.steps = steps.taken
    return swept


def _base_run(seed: int, jobs: int, faults: Faults | None) -> dict[Hashable, int]:
    """The fingerprint after each turn, with its number, of the run without a crash."""
    run = Simulation(seed, jobs, faults=faults)
    known: dict[Hashable, int] = {}
    for number in range(MOST_TURNS):
        more = run.step()
        known[of_run(run)] = number
        if not more:
            check_end(run)
            return known
    raise AssertionError(f"seed {seed} is not at an end after {MOST_TURNS} turns")


def _forked_run(run: Simulation, steps: ForkingSteps, known: dict[Hashable, int]) -> None:
    """The same again; each child returns here from the turn in which it crashed."""
    for number in range(MOST_TURNS):
        more = run.step()
        if steps.crashed_at:
            _go_on_after_crash(run, steps, known)
        assert known.get(of_run(run)) == number, f"turn {number} is not as it was without forks"
        if not more:
            return


def _go_on_after_crash(run: Simulation, steps: ForkingSteps, known: dict[Hashable, int]) -> None:
    """The rest of a child's life."""
    verify = sum(steps.crashed_at) % TO_THE_END_ANYWAY == 0
    rejoined = False
    for _ in range(MOST_TURNS):
        more = run.step()
        steps.forks = False  # The recovery is over.
        is_known = of_run(run) in known
        assert is_known or not rejoined, "it left the known run again"
        rejoined = is_known
        if rejoined and not verify:
            break
        if not more:
            check_end(run)
            break
    else:
        raise AssertionError(f"not at an end after {MOST_TURNS} turns: {run.engine.state.jobs}")
    steps.report("e" if not rejoined else "v" if verify else "r")
    os._exit(0)


def main(arguments: list[str] | None = None) -> int:
    """Sweep, and print what was done as JSON."""
    parser = argparse.ArgumentParser(prog="python -m stoker.sim.sweep", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="what the run is made from")
    parser.add_argument("--jobs", type=int, default=200, help="how many jobs it has")
    parser.add_argument("--depth", type=int, default=1, help="2: crash each recovery too")
    given = parser.parse_args(arguments)
    try:
        swept = sweep(given.seed, given.jobs, given.depth)
    except CrashFound as found:
        print(found, file=sys.stderr)
        return 1
    print(json.dumps(asdict(swept)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
