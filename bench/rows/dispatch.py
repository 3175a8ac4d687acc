"""How much a scheduler adds to the cost of its jobs: many that do nothing, on four slots.

Every contender runs `sh -c true` so many times, four at once. The limit is a C loop of posix_spawn;
the others are shown as multiples of it. Stoker has everything on: a log and an exit code for each
job, a session of its own, and every commit durable before anything is started.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from harness import peers
from harness.instance import NO_OP, Instance, gpu_list, paused
from harness.measures import Goal, Measure, Report, measure
from harness.setting import Setting
from harness.watched import watched_gpus
from side_by_side import Contenders, Load, measured, ratios, timed

LIMIT = "posix_spawn in C"
_WATCHING = "Stoker that reads GPUs"
_BESIDE_OFFERED = "Stoker beside a job that offers to give way"
_ALL_OFFERED = "Stoker whose jobs all offer to give way"
_OFFERED: dict[str, Any] = {"preemptible": True, "slice_ms": 3_600_000}
_OURS = ("Stoker", _WATCHING, _BESIDE_OFFERED, _ALL_OFFERED)
_SCHEDULERS = (
    peers.SIMPLE_GPU_SCHEDULER,
    peers.TASK_SPOOLER,
    peers.HYPERQUEUE,
    peers.PARALLEL,
    peers.NQ,
    peers.GFLOW,
)


def dispatch(setting: Setting) -> list[Report]:
    """Few jobs beside all peers, many beside the quicker ones."""
    few, left_out = _beside(setting, setting.so_many(2_000, 300), _SCHEDULERS, setting.times(5))
    many: list[Measure] = []
    if not setting.quick:
        quicker = (peers.SIMPLE_GPU_SCHEDULER, peers.HYPERQUEUE)
        many, _ = _beside(setting, 20_000, quicker, setting.times(3))
    return [Report("dispatch", "queued no-op jobs, over the C limit", [*few, *many], left_out)]


def _beside(
    setting: Setting, jobs: int, schedulers: Sequence[peers.Peer], rounds: int
) -> tuple[list[Measure], dict[str, str]]:
    program = str(setting.program("limit"))
    here, left_out = peers.present([peers.XARGS, *schedulers])
    watched = watched_gpus(setting, setting.load(jobs).slots)
    contenders: Contenders = {
        LIMIT: lambda load: timed([program, str(load.jobs), str(load.slots)]),
        **{peer.name: peer.seconds for peer in here},
        "Stoker": run_stoker,
        _WATCHING: lambda load: _run_watching(load, watched),
        _BESIDE_OFFERED: _run_beside_offered,
        _ALL_OFFERED: lambda load: run_stoker(load, NO_OP | _OFFERED),
    }
    seconds = measured(contenders, setting.load(jobs), rounds)
    shown = []
    for name in contenders:
        peer = next((one for one in here if one.name == name), None)
        note = ""
        if peer is not None and peer.most_jobs is not None and peer.most_jobs < jobs:
            note = f"at the rate of {peer.most_jobs} jobs"
        if name not in _OURS:
            over = ratios(seconds, name, LIMIT)
            shown.append(measure(f"{name}, {jobs:,}", over, "x", ours=False, note=note))
    goals: dict[str, Any] = {} if setting.quick else {"must": Goal(1.6), "aim": Goal(1.25)}
    shown.append(measure(f"Stoker, {jobs:,}", ratios(seconds, "Stoker", LIMIT), "x", **goals))
    rivals = [peer.name for peer in here if peer.name != peers.XARGS.name]
    if rivals:
        best = min(rivals, key=lambda name: sum(seconds[name]))
        over = ratios(seconds, "Stoker", best)
        ahead = Goal(1.0)
        shown.append(measure(f"Stoker over the best scheduler, {jobs:,}", over, "x", must=ahead,
                             note=best))  # fmt: skip
    noise = Goal(1.05)
    # Those that all offer it have a directory each, and none takes over: that has its price.
    for name, must in ((_WATCHING, noise), (_BESIDE_OFFERED, noise), (_ALL_OFFERED, None)):
        over = ratios(seconds, name, "Stoker")
        shown.append(measure(f"{name} over Stoker, {jobs:,}", over, "x", must=must))
    return shown, left_out


def run_stoker(load: Load, job: dict[str, Any] = NO_OP) -> float:
    """A real daemon with the jobs already queued, from `resume` to the end of the last job."""
    with (
        Instance(load.scratch, gpus=gpu_list(load.slots)) as instance,
        paused(instance, [job] * load.jobs) as ids,
    ):
        return instance.run_all(ids)


def _run_watching(load: Load, env: dict[str, str]) -> float:
    """The same, where a driver tells which GPUs there are and what they do."""
    with Instance(load.scratch, env=env) as instance:
        seen = len(instance.call("gpus")["gpus"])
        assert seen == load.slots, f"{seen} GPUs are seen"
        with paused(instance, [NO_OP] * load.jobs) as ids:
            return instance.run_all(ids)


def _run_beside_offered(load: Load) -> float:
    """The same, where a job in a slice that would give way runs on another GPU all the time."""
    with Instance(load.scratch, gpus=gpu_list(load.slots + 1)) as instance:
        instance.submit([{"argv": ["sleep", "3600"], "gpus": 1, **_OFFERED}])
        while not instance.counts().get("running"):
            time.sleep(0.01)
        with paused(instance, [NO_OP] * load.jobs) as ids:
            return instance.run_all(ids)
