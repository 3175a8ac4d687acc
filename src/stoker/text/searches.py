"""How far a search is, in one line, for all front ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_WAITS = {
    "slot": "waits for a slot",
    "result": "waits for a result",
    "rest": "waits for the last results",
}


def is_searching(call: Callable[..., dict[str, Any]], group: str) -> bool:
    """Whether a group is a search that still chooses points; `call` is that of a client."""
    found = call("searches", name=group, brief=True)["searches"]
    return any(one["state"] == "running" for one in found)


def search_text(search: Mapping[str, Any]) -> str:
    """`trial 31 of 60, best val_loss 0.412 at trial 17, waits for a slot`.

    Trials are counted from 1 here, while Optuna counts them from 0.
    """
    progress, objectives = search["progress"], search["objectives"]
    if not progress.get("trials"):
        return _end(search) or search.get("trouble") or "the search begins"
    samples = progress["samples"]
    made = f"{progress['trials']} of {samples}" if samples else str(progress["trials"])
    parts = [f"trial {made}"]
    best = progress["best"]
    if len(objectives) > 1 and best:
        parts.append(f"{len(best)} on the Pareto front")
    elif best:
        number, value = best[0]
        parts.append(f"best {objectives[0][0]} {_number(value)} at trial {number + 1}")
    if progress.get("failed"):
        parts.append(f"{progress['failed']} failed")
    if progress.get("stopped"):
        parts.append(f"{progress['stopped']} stopped early")
    waits = _WAITS.get(progress.get("waits", ""), "goes on")
    parts.append(_end(search) or search.get("trouble") or waits)
    return ", ".join(parts)


def _end(search: Mapping[str, Any]) -> str:
    over = search["progress"].get("over", "")
    if search["state"] == "ended":
        return f"ended: {over}"
    left = search["progress"].get("left", 0)
    rest = f"; {left} point{' still runs' if left == 1 else 's still run'}" if left else ""
    return f"ends: {over}{rest}" if over else ""


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.5g}"
