"""Benchmarks with a table of their own, which say themselves what they measure.

They are run as they are; their results are in files of their names.
"""

from __future__ import annotations

import subprocess
import sys

from harness.measures import Report
from harness.setting import Setting
from side_by_side import HERE


def packing(setting: Setting) -> list[Report]:
    """How well GPUs are filled."""
    return _run(setting, "packing", ["--jobs", "24"] if setting.quick else [])


def on_slurm(setting: Setting) -> list[Report]:
    """Jobs on Slurm, beside Slurm's own commands."""
    return _run(setting, "on_slurm", ["--jobs", "20", "--rounds", "1"] if setting.quick else [])


def _run(setting: Setting, name: str, quickly: list[str]) -> list[Report]:
    script = HERE / f"{name}.py"
    if not script.exists():
        return [Report(name, "not part of this version", [], {name: "there is no such script"})]
    words = [sys.executable, str(script), *quickly]
    if setting.quick:
        words += ["--results", str(setting.scratch / f"{name}.json")]
    code = subprocess.run(words, check=False).returncode
    left_out = {} if code == 0 else {name: f"it ended with exit code {code}"}
    return [Report(name, "see its own table above", [], left_out)]
