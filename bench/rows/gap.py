"""How long a GPU stands still between two jobs: from the end of one to the start of the next.

Each job writes down when it starts and, just before it ends, that it ends. What is in between on
one GPU is the gap: the end of a process, the scheduler's decision and its commit, and the start of
the next process. The job is that program itself, without a shell or a loader before it, whose time
is a job's own. First with jobs that do nothing, where the scheduler is never done; then with jobs
that take a while, as jobs on GPUs do.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from harness import peers
from harness.instance import Instance, gpu_list, paused
from harness.measures import Goal, Measure, Report, measure, percentile
from harness.setting import Setting
from side_by_side import Load, timed

Run = Callable[[Load, list[str]], None]
_PACED_MS = 20


def gap(setting: Setting) -> list[Report]:
    """The gaps of Stoker and of xargs, in interleaved rounds."""
    jobs = setting.so_many(1_000, 200)
    measures: list[Measure] = []
    curves: dict[str, list[list[float]]] = {}
    for kind, pause_ms in (("no-op", 0), (f"{_PACED_MS} ms", _PACED_MS)):
        gaps: dict[str, list[list[float]]] = {"xargs": [], "Stoker": []}
        runs: dict[str, Run] = {"xargs": _xargs, "Stoker": _stoker}
        for number in range(setting.times(5, 2)):
            for name in sorted(runs, reverse=bool(number % 2)):
                gaps[name].append(_gaps_ms(setting, runs[name], jobs, pause_ms))
                p50, p99 = (percentile(gaps[name][-1], p) for p in (50, 99))
                setting.say(f"round {number + 1}: {name}, {kind} p50 {p50:.2f}, p99 {p99:.2f} ms")
        measures += _measures(kind, gaps, paced=bool(pause_ms))
        for name, rounds in gaps.items():
            every = sorted(one for some in rounds for one in some)
            curves[f"{name}, {kind}"] = _outline(every)
    return [Report("gap", "from the exit of a job to the next start on its GPU", measures,
                   curves=curves)]  # fmt: skip


def _measures(kind: str, gaps: dict[str, list[list[float]]], *, paced: bool) -> list[Measure]:
    found = []
    for percent in (50, 99):
        theirs = [percentile(one, percent) for one in gaps["xargs"]]
        ours = [percentile(one, percent) for one in gaps["Stoker"]]
        beside = measure(f"xargs, {kind} jobs, p{percent}", theirs, "ms", ours=False)
        goals: dict[str, Any] = {}
        if percent == 99:
            goals = {"must": Goal(5.0), "aim": Goal(beside.value)}
        found.append(beside)
        found.append(
            measure(
                f"Stoker, {kind} jobs, p{percent}",
                ours,
                "ms",
                yardstick=beside.value,
                slack=0.5,
                **goals,
            )
        )
    return found


def _gaps_ms(setting: Setting, run: Run, jobs: int, pause_ms: int) -> list[float]:
    file = setting.scratch / f"stamps-{len(list(setting.scratch.glob('stamps-*')))}"
    run(setting.load(jobs), [str(setting.program("stamp")), str(file), str(pause_ms)])
    by_slot: dict[str, list[tuple[int, int]]] = {}
    for line in file.read_text(encoding="ascii").splitlines():
        slot, start, end = line.split()
        by_slot.setdefault(slot, []).append((int(start), int(end)))
    assert sum(map(len, by_slot.values())) == jobs, "a job has left no stamp"
    found = []
    for spans in by_slot.values():
        spans.sort()
        found += [(later[0] - earlier[1]) / 1e6 for earlier, later in pairwise(spans)]
    return found


def _xargs(load: Load, words: list[str]) -> None:
    slots = ["--process-slot-var=CUDA_VISIBLE_DEVICES", f"-P{load.slots}"]
    # At the word that xargs appends nobody looks.
    timed(["xargs", *slots, "-n1", *words], peers.numbers(load))


def _stoker(load: Load, words: list[str]) -> None:
    job = {"argv": words, "gpus": 1}
    with (
        Instance(load.scratch, gpus=gpu_list(load.slots)) as instance,
        paused(instance, [job] * load.jobs) as ids,
    ):
        instance.run_all(ids)


def _outline(ordered: list[float], points: int = 200) -> list[list[float]]:
    """The distribution as so many points: milliseconds, and the percent that are not above."""
    count = len(ordered)
    step = max(1, count // points)
    ranks = range(0, count, step)
    return [[round(ordered[at], 4), round(100 * (at + 1) / count, 2)] for at in ranks]
