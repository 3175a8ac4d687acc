"""Benchmarks that can be run by themselves: their own tables, as rows of the common one."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from harness.measures import Goal, Measure, Report, measure
from harness.setting import Setting
from side_by_side import HERE

_OURS = ("learning", "learning, killed")


def packing(setting: Setting) -> list[Report]:
    """How well GPUs are filled."""
    found = _run(setting, "packing", ["--jobs", "24"] if setting.quick else [])
    return [packing_report(found)]


def packing_report(found: dict[str, Any]) -> Report:
    """What a run of bench/packing.py came to."""
    runs: dict[str, dict[str, Any]] = found["runs"]
    alone_s = runs["one job a GPU"]["makespan_s"]
    shown: list[Measure] = []
    for name, one in runs.items():
        ours = name in _OURS
        goals: dict[str, Any] = {"must": Goal(1.15)} if ours else {}
        times = [one["makespan_s"] / found["bound_s"]]
        shown.append(measure(f"{name}, over the bound", times, "x", ours=ours, **goals))
    for name in _OURS:
        one = runs[name]
        over = [one["makespan_s"] / alone_s]
        shown.append(measure(f"{name}, over one job a GPU", over, "x", must=Goal(0.5)))
        part = [100 * one["out_of_memory"] / one["attempts"]]
        name_of_part = f"{name}, attempts out of memory"
        shown.append(measure(name_of_part, part, "%", must=Goal(2.0), slack=2.0))
        failed = measure(f"{name}, jobs that failed", [one["failed"]], "", must=Goal(0))
        shown.append(failed)
    curves = {name: _together(one["gpus"]) for name, one in runs.items()}
    for number, curve in enumerate(runs["learning"]["gpus"].values()):
        curves[f"GPU {number}"] = curve
    what = f"{found['jobs']} trainings of 8 kinds, 4 stand-in GPUs"
    return Report("packing", what, shown, curves=curves)


def _together(gpus: dict[str, list[list[float]]]) -> list[list[float]]:
    """The sum of curves with the same moments."""
    return [
        [points[0][0], round(sum(gib for _, gib in points), 2)]
        for points in zip(*gpus.values(), strict=True)
    ]


def on_slurm(setting: Setting) -> list[Report]:
    """Jobs on Slurm, beside Slurm's own commands."""
    words = ["--jobs", "20", "--rounds", "1"] if setting.quick else []
    if not setting.quick and setting.rounds is not None:
        words = ["--rounds", str(setting.rounds)]
    return [slurm_report(_run(setting, "on_slurm", words))]


def slurm_report(found: dict[str, Any]) -> Report:
    """What a run of bench/on_slurm.py came to."""
    first, *others = found["contenders"]
    shown = []
    for one in others:
        over = [mine / its for mine, its in zip(one["seconds"], first["seconds"], strict=True)]
        ours = one["name"] == "stoker feed"
        goals: dict[str, Any] = {"must": Goal(1.3)} if ours else {}
        name = f"{one['name']}, over {first['name']}"
        shown.append(measure(name, over, "x", ours=ours, **goals))
    return Report("on_slurm", f"{found['jobs']} jobs that do nothing, on 12 GPUs", shown)


def _run(setting: Setting, name: str, words: list[str]) -> dict[str, Any]:
    kept = setting.scratch / f"{name}.json"
    # Its exit code says whether all that must hold does, and that is told by the report.
    program = [sys.executable, str(HERE / f"{name}.py"), *words, "--results", str(kept)]
    subprocess.run(program, check=False)
    if not kept.exists():
        raise RuntimeError(f"bench/{name}.py has not come to its end; see what it said above")
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return found
