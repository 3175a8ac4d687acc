"""A crash at every step of a simulated run: `python -m stoker.sim.sweep --seed 7 --jobs 200`.

The run is first made without a crash, and its fingerprint after each turn is kept. Then it is made
again, and at each step a second run branches off in which the engine dies right there. It recovers
and goes on until its fingerprint is one of those known, from where on the rest is known too, or
to the end. With a depth of 2 the recovery is crashed at each of its steps as well.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass

from stoker.sim.agreement import check_end
from stoker.sim.faults import Steps
from stoker.sim.fingerprint import of_run
from stoker.sim.run import Faults, Simulation

# Every so many branches go on to the very end although their fingerprint is known, to see that
# what is concluded from a known fingerprint is true.
TO_THE_END_ANYWAY = 400

MOST_TURNS = 20_000


class BrokenByCrash(AssertionError):
    """A crash at some step broke something; the cause is what the branch came upon."""


@dataclass(slots=True)
class Swept:
    """What a sweep did."""

    seed: int
    jobs: int
    steps: int = 0
    crashes: int = 0
    rejoined: int = 0  # branches that came to a known fingerprint
    ended: int = 0  # branches that went to the end on a way of their own
    verified: int = 0  # branches that rejoined, and were followed to the end nevertheless


class BranchingSteps(Steps):
    """Steps at each of which a run branches off that crashes there."""

    def __init__(self, sweep: Sweep, crashed_at: tuple[int, ...] = ()) -> None:
        super().__init__()
        self._sweep = sweep
        self._crashed_at = crashed_at
        self.branches = True

    def take(self) -> None:
        """See Steps."""
        self.taken += 1
        if self.branches:
            self._sweep.branch(self.run, (*self._crashed_at, self.taken))


class Sweep:
    """All crashes of one seed."""

    def __init__(self, seed: int, jobs: int, depth: int = 1, faults: Faults | None = None) -> None:
        self._seed = seed
        self._jobs = jobs
        self._depth = depth
        self._faults = faults
        self._known: dict[int, int] = {}  # the hash of a fingerprint, and after which turn it was
        self.swept = Swept(seed, jobs)

    def run(self) -> Swept:
        """Crash at every step; raises BrokenByCrash at the first that breaks anything."""
        base = Simulation(self._seed, self._jobs, faults=self._faults)
        for number in range(MOST_TURNS):
            more = base.step()
            self._known[hash(of_run(base))] = number
            if not more:
                break
        check_end(base)
        steps = BranchingSteps(self)
        again = Simulation(self._seed, self._jobs, steps, self._faults)
        for number in range(MOST_TURNS):
            more = again.step()
            as_before = self._known.get(hash(of_run(again))) == number
            assert as_before, f"turn {number} is not as it was the first time"
            if not more:
                break
        self.swept.steps = steps.taken
        return self.swept

    def branch(self, run: Simulation, crashed_at: tuple[int, ...]) -> None:
        """Follow what comes of a crash at this very moment."""
        self.swept.crashes += 1
        try:
            self._follow(run, crashed_at)
        except BrokenByCrash:
            raise
        except BaseException as error:
            where = f"seed {self._seed}, {self._jobs} jobs, crashed at {crashed_at}: {error!r}"
            raise BrokenByCrash(where) from error

    def _follow(self, run: Simulation, crashed_at: tuple[int, ...]) -> None:
        steps = BranchingSteps(self, crashed_at)
        steps.branches = len(crashed_at) < self._depth
        branch = run.survivor(steps)
        verify = self.swept.crashes % TO_THE_END_ANYWAY == 0
        rejoined = False
        for _ in range(MOST_TURNS):
            more = branch.step()
            steps.branches = False  # The recovery is over; what follows is crashed elsewhere.
            is_known = hash(of_run(branch)) in self._known
            assert is_known or not rejoined, "it left the known run again"
            rejoined = is_known
            if rejoined and not verify:
                break
            if not more:
                check_end(branch)
                break
        else:
            raise AssertionError(f"not at an end after {MOST_TURNS} turns")
        self.swept.rejoined += rejoined
        self.swept.verified += rejoined and verify
        self.swept.ended += not rejoined


def main(arguments: list[str] | None = None) -> int:
    """Sweep, and print what was done as JSON."""
    parser = argparse.ArgumentParser(prog="python -m stoker.sim.sweep", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="what the run is made from")
    parser.add_argument("--jobs", type=int, default=200, help="how many jobs it has")
    parser.add_argument("--depth", type=int, default=1, help="2: crash each recovery too")
    given = parser.parse_args(arguments)
    print(json.dumps(asdict(Sweep(given.seed, given.jobs, given.depth).run())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
