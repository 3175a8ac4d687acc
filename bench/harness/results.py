"""Results in files: one JSON file a row, and the ones that were committed."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.measures import SCHEMA, Goal, Measure, Report


def written(report: Report) -> str:
    """The text of a results file."""
    return json.dumps({"schema": SCHEMA, **asdict(report)}, indent=1, ensure_ascii=False) + "\n"


def understood(text: str) -> Report | None:
    """The report in a results file; None if it is of another schema, or is none of ours."""
    try:
        fields = json.loads(text)
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.pop("schema", None) != SCHEMA:
        return None
    fields["measures"] = [_measure(one) for one in fields["measures"]]
    return Report(**fields)


def _measure(fields: dict[str, Any]) -> Measure:
    for name in ("must", "aim"):
        fields[name] = None if fields[name] is None else Goal(**fields[name])
    fields["samples"] = tuple(fields["samples"])
    return Measure(**fields)


def keep(report: Report, directory: Path) -> Path:
    """Write a report to its file."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{report.row}.json"
    path.write_text(written(report), encoding="utf-8")
    return path


def kept(row: str, directory: Path) -> Report | None:
    """What the file of a row says."""
    try:
        return understood((directory / f"{row}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def committed(row: str, directory: Path) -> Report | None:
    """What the last commit says of a row, whatever was measured since; else what the file says."""
    shown = subprocess.run(
        ["git", "-C", str(directory.parent), "show", f"HEAD:./{directory.name}/{row}.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if shown.returncode == 0:
        return understood(shown.stdout.decode())
    in_git = subprocess.run(
        ["git", "-C", str(directory.parent), "rev-parse", "--verify", "--quiet", "HEAD"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    # In a repository without such a file, nothing was committed yet.
    return None if in_git.returncode == 0 else kept(row, directory)
