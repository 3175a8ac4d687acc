"""How well Stoker decides, in virtual time: the rows of bench/scheduling in the common table."""

from __future__ import annotations

import statistics
from typing import Any

from harness.measures import Goal, Measure, Report, measure
from harness.setting import Setting
from scheduling.rows import ROWS, NotThere

SLOW = ("philly", "muri2", "muri1_packed", "muri2_packed")  # minutes each: not in a quick run
UNITS = {"x bound": "x", "OOM %": "%", "JCT ks": "ks", "queue s": "s", "wait min": "min",
         "makespan min": "min", "allocated %": "%", "error %": "%"}  # fmt: skip

# What is to be reached, by row and figure.
REACH: dict[tuple[str, str], Goal] = {
    ("packing", "x bound"): Goal(1.20),
    ("packing", "OOM %"): Goal(1.0),
    ("by_kind", "x bound"): Goal(1.25),
    ("by_kind", "OOM %"): Goal(2.0),
    ("loading", "OOM %"): Goal(1.5),
    ("loading_by_kind", "OOM %"): Goal(5.0),
    ("four", "makespan min"): Goal(61),
    ("muri1", "JCT ks"): Goal(3330),
    ("muri2", "JCT ks"): Goal(7396),
    ("philly", "queue s"): Goal(4500),
    ("group", "wait min"): Goal(10),
    ("openb", "allocated %"): Goal(95.4, at_least=True),
    ("forecast", "error %"): Goal(20),
    ("forecast_packed", "error %"): Goal(40),
}


def scheduling(setting: Setting) -> list[Report]:
    """Packing, order and forecasts, by the real core."""
    shown: list[Measure] = []
    left_out: dict[str, str] = {}
    for name, row in ROWS.items():
        if setting.quick and name in SLOW:
            left_out[name] = "it takes minutes"
            continue
        found: dict[str, list[float]] = {}
        try:
            for seed in range(1, 1 + (setting.times(20, 2) if row.seeded else 1)):
                for figure, value in row.play(seed, "fifo").items():
                    found.setdefault(figure, []).append(value)
        except NotThere as error:
            left_out[name] = str(error)
            continue
        setting.say(f"{name}: {row.what}")
        for figure, samples in found.items():
            if figure in UNITS:
                more: dict[str, Any] = {"aim": REACH.get((name, figure)), "slack": 0.5}
                mean = f"mean {statistics.mean(samples):.4g}" if len(samples) > 1 else ""
                what = f"{row.what}: {figure}"
                up = figure == "allocated %"
                shown.append(
                    measure(what, samples, UNITS[figure], note=mean, more_is_better=up, **more)
                )
    return [Report("scheduling", "decisions in virtual time, 20 seeds", shown, left_out=left_out)]
