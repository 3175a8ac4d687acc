"""How good a search is through Stoker, and how long GPUs wait for it: in virtual time.

The searcher and its study are the real ones; the daemon, eight GPUs and the runs on them are played
by `harness.virtual_slots`. Beside it, Optuna is asked and told without Stoker: in one process, one
trial after the other, and with eight trials at a time.
"""

from __future__ import annotations

import heapq
import random
import statistics
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from unittest.mock import patch

import optuna

from harness.measures import Goal, Measure, Report, measure
from harness.objectives import PROBLEMS, Problem, branin, learning_curves
from harness.setting import Setting
from harness.virtual_slots import FASTEST_S, METRIC, SLOWEST_S, VirtualSlots
from stoker.metrics.lookup import Lookup
from stoker.search.searcher import Searcher
from stoker.search.space import dimensions
from stoker.search.spec import Objective
from stoker.search.starting import Wanted, planned
from stoker.search.stopping import EarlyStops
from stoker.search.study import Study
from stoker.submission.sweeps import SweepSpec
from stoker.sweep.notation import parsed
from stoker.sweep.points import Choosing, Space

SLOTS = 8
TRIALS = 200
MIN_STEPS = 3  # before a run may be stopped early


@dataclass(frozen=True, slots=True)
class Asked:
    """A search that is tried."""

    sampler: str = "tpe"
    trials: int = TRIALS
    max_running: int | None = SLOTS
    stop_early: str | None = None
    min_steps: int | None = None


def search(setting: Setting) -> list[Report]:
    """What is found with so many trials, and what slots wait."""
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    seeds, trials = range(setting.times(20, 3)), setting.so_many(TRIALS, 30)
    measures: list[Measure] = []
    for name, problem in PROBLEMS.items():
        measures += _found(name, problem, seeds, trials)
        setting.say(f"search: {name}: {measures[-2].value} of Optuna's seeds are better")
    for min_steps in (MIN_STEPS, None):
        measures += _early(seeds, setting.so_many(60, 20), min_steps)
        setting.say(f"search: asha takes {measures[-2].value} of the GPU time")
    trials = setting.so_many(200, 30)
    for max_running, how in ((SLOTS, f"--max-running {SLOTS}"), (None, "one point ahead")):
        asked = Asked(trials=trials, max_running=max_running)
        home = setting.scratch / f"search-{max_running}"
        home.mkdir()
        slots = through_stoker(branin(0), 0, asked, str(home))
        part = 100 * slots.waited_s / (slots.waited_s + slots.gpu_s)
        setting.say(f"search: slots wait {part:.2f} %, {how}")
        measures.append(
            measure(f"slots wait for the searcher, {trials} trials, {how}", [part], "%",
                    must=Goal(1.0), slack=0.5)
        )  # fmt: skip
    what = f"1000 x (best found - least possible), {SLOTS} slots in virtual time"
    return [Report("search", what, measures)]


def _found(
    name: str, problem: Callable[[int], Problem], seeds: Sequence[int], trials: int
) -> list[Measure]:
    """How far from the best possible value the points are that look best, for each seed."""
    alone = [without_stoker(problem(seed), seed, trials, 1) for seed in seeds]
    at_a_time = [without_stoker(problem(seed), seed, trials, SLOTS) for seed in seeds]
    tpe, at_random = (
        [regret(through_stoker(problem(seed), seed, Asked(sampler, trials))) for seed in seeds]
        for sampler in ("tpe", "random")
    )
    measures = [
        measure(f"{name}: {who}", [1000 * one for one in regrets], "", ours=False)
        for who, regrets in (
            ("Optuna in one process", alone), (f"Optuna, {SLOTS} at a time", at_a_time),
            ("Stoker", tpe), ("Stoker, random", at_random),
        )
    ]  # fmt: skip
    median = statistics.median(tpe)
    better = 100 * sum(one < median for one in alone) / len(alone)
    over_random = median / statistics.median(at_random)
    return [
        *measures,
        measure(f"{name}: seeds of Optuna that are better than Stoker's median", [better], "%",
                must=Goal(95.0), slack=10.0),
        measure(f"{name}: tpe over random", [over_random], "x", must=Goal(1.0), slack=0.1),
    ]  # fmt: skip


def _early(seeds: Sequence[int], trials: int, min_steps: int | None) -> list[Measure]:
    """The part of the GPU time of random search in which asha has found what that has found.

    Where it has not found that with four times the trials, all of its time is counted.
    """
    parts, found = [], 0
    for seed in seeds:
        problem = learning_curves(seed)
        whole = through_stoker(problem, seed, Asked("random", trials))
        asked = Asked("random", 4 * trials, stop_early="asha", min_steps=min_steps)
        early = through_stoker(problem, seed, asked)
        wanted = problem.least + regret(whole)
        reached = [
            one.ends_s
            for one in early.runs
            if one.state == "succeeded" and problem.value(one.params) <= wanted
        ]
        found += bool(reached)
        parts.append(early.gpu_s_until(min(reached, default=early.now_s)) / whole.gpu_s)
    how = "asha" if min_steps is None else f"asha --min-steps {min_steps}"
    return [
        measure(f"learning curves: GPU time of {how} for random's best, over random's", parts, "x",
                must=Goal(0.333), slack=0.05),
        measure(f"learning curves: seeds for which {how} has found it", [100 * found / len(seeds)],
                "%", more_is_better=True, slack=10.0),
    ]  # fmt: skip


# ---------------------------------------------------------------------- one search


def through_stoker(
    problem: Problem, seed: int, asked: Asked, home: str | None = None
) -> VirtualSlots:
    """A search on eight slots; with a home its study is on disk, and its own time is counted."""
    request = {"cwd": "/", "env": {"PATH": "/bin:/usr/bin"}, "jobs": [{}], "user": "bench"}
    spec = SweepSpec(
        Space(tuple(parsed(one.word) for one in problem.space)),
        Choosing(samples=asked.trials, seed=seed), ["true"], "flags", "s", request, {},
    )  # fmt: skip
    goal = Objective(METRIC, "min")
    wanted = Wanted([goal], asked.sampler, stop_early=asked.stop_early, min_steps=asked.min_steps)
    search = planned(spec, wanted, asked.max_running).search
    slots = VirtualSlots(problem, SLOTS, seed, counts_searcher=home is not None)
    with ExitStack() as stack:
        if home is None:  # What a sampler chooses does not depend on where its study is.
            stack.enter_context(patch.object(optuna.storages, "RDBStorage", _NoFile))
            in_memory = partial(_in_memory, optuna.create_study)
            stack.enter_context(patch.object(optuna, "create_study", in_memory))
        study = Study(
            home or "", search.name, dimensions(search.space), search.objectives, search.sampler,
            search.seed, stopping=search.stopping,
        )  # fmt: skip
        stops = None
        if search.stopping is not None:
            stops = EarlyStops(search.stopping, METRIC, study, slots.call, cast("Lookup", slots))
        slots.search(Searcher(search, study, slots.call, stops), stops)
    return slots


def regret(slots: VirtualSlots) -> float:
    """How much worse than possible the point is that looks best."""
    ended = [one for one in slots.runs if one.state == "succeeded"]
    best = min(ended, key=lambda one: min(one.reports))
    return slots.problem.value(best.params) - slots.problem.least


def without_stoker(problem: Problem, seed: int, trials: int, at_a_time: int) -> float:
    """The same of Optuna by itself; trials end at random times, as through Stoker."""
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    chance = random.Random(seed)
    running: list[tuple[float, int, float]] = []
    now_s = 0.0
    for number in range(trials + at_a_time):
        if number >= at_a_time:
            now_s, ended, value = heapq.heappop(running)
            study.tell(ended, value)
        if number < trials:
            trial = study.ask()
            params = {
                one.name: trial.suggest_float(one.name, one.low, one.high, log=one.log)
                for one in problem.space
            }
            ends_s = now_s + chance.uniform(FASTEST_S, SLOWEST_S)
            value = min(problem.curve(params, chance))
            heapq.heappush(running, (ends_s, trial.number, value))
    return problem.value(study.best_params) - problem.least


class _NoFile:
    def __init__(self, *_: Any, **__: Any) -> None:
        pass


def _in_memory(create_study: Callable[..., optuna.Study], **options: Any) -> optuna.Study:
    return create_study(**{**options, "storage": None})
