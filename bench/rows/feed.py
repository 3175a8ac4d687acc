"""`stoker feed` beside simple_gpu_scheduler and xargs: the same file of commands that do nothing.

All are timed as whole commands, from their start to the end of the last line. Stoker's daemon is
there already, as it is on every day but the first.
"""

from __future__ import annotations

from typing import Any

from harness import peers
from harness.instance import Instance, gpu_list
from harness.measures import Goal, Measure, Report, measure
from harness.setting import Setting
from side_by_side import BIN, Contenders, Load, measured, ratios, timed

_GOALS: dict[str, dict[str, Any]] = {
    peers.SIMPLE_GPU_SCHEDULER.name: {"must": Goal(1.0)},
    peers.XARGS.name: {"aim": Goal(1.1)},
}


def feed(setting: Setting) -> list[Report]:
    """A short file and a long one."""
    sizes = {300: 1} if setting.quick else {2_000: 5, 10_000: 3}
    shown: list[Measure] = []
    left_out: dict[str, str] = {}
    for jobs, rounds in sizes.items():
        here, left_out = peers.present([peers.XARGS, peers.SIMPLE_GPU_SCHEDULER])
        contenders: Contenders = {
            **{peer.name: peer.seconds for peer in here},
            "stoker feed": run_feed,
            "drop-in": run_drop_in,
        }
        seconds = measured(contenders, setting.load(jobs), setting.times(rounds))
        for name in contenders:
            rate = [jobs / one for one in seconds[name]]
            shown.append(measure(f"{name}, {jobs:,} lines", rate, "jobs/s", ours=False))
        for name in ("stoker feed", "drop-in"):
            for peer, goals in _GOALS.items():
                if peer in seconds:
                    over = ratios(seconds, name, peer)
                    shown.append(measure(f"{name} over {peer}, {jobs:,}", over, "x", **goals))
    return [Report("feed", "a file of commands, whole commands timed", shown, left_out)]


def run_feed(load: Load) -> float:
    """`stoker feed`, with the shell that the others use."""
    return _beside_a_daemon(load, [str(BIN / "stoker"), "feed", "--on", gpu_list(load.slots)])


def run_drop_in(load: Load) -> float:
    """Stoker's command of the older tool's name."""
    words = [str(BIN / "simple_gpu_scheduler"), "--gpus", gpu_list(load.slots)]
    return _beside_a_daemon(load, words)


def _beside_a_daemon(load: Load, words: list[str]) -> float:
    with Instance(load.scratch, gpus=gpu_list(load.slots)) as instance:
        return timed(words, "true\n" * load.jobs, instance.env)
