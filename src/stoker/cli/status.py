"""Bare `stoker`: GPUs and jobs at a glance."""

from __future__ import annotations

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.jobtext import FINAL_STATES, STATES, iso_times, job_table
from stoker.cli.options import JSON, Option, Verb
from stoker.cli.terminal import Cell, Column, escaped, out, painted, table, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.cli.options import Args

_GPU_COLOURS = {"free": "green", "busy": "yellow", "shared": "cyan", "drained": "red",
                "removing": "red"}  # fmt: skip


def _limit(text: str) -> int:
    return quantities.whole_number(text, 1, 100_000)


def status(args: Args) -> int:
    """Show GPUs, counts and jobs."""
    order = {} if args["limit"] is None else {"limit": args["limit"]}
    with Client() as client:
        answer = client.call("status", **order)
    if args["json"]:
        from stoker.api.jsonline import dumps

        shown = {key: value for key, value in answer.items() if key != "ok"}
        shown["jobs"] = [iso_times(job) for job in answer["jobs"]]
        shown["daemon"] = iso_times(answer.get("daemon") or {})
        out(dumps({"schema": 1, **shown}) + "\n")
        return 0
    colour = wants_colour()
    parts = []
    if answer["gpus"]:
        parts.append(gpu_table(answer["gpus"], answer["jobs"]))
    else:
        parts.append("no GPUs yet: declare them with `stoker config set gpus 0,1`\n")
    parts.append(_summary(answer, colour))
    if answer["jobs"]:
        parts.append(job_table(answer["jobs"]))
    out("\n".join(parts))
    return 0


def gpu_table(gpus: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> str:
    """GPUs in columns: what each has, and who is on it."""
    names = {job["id"]: job.get("name") for job in jobs}
    columns = (
        Column("GPU", least=12),
        Column("STATE"),
        Column("MEMORY"),
        Column("USED", right=True),
        Column("JOBS", least=16),
    )
    rows = []
    for gpu in gpus:
        on_it = [f"{one} {names[one]}" if names.get(one) else str(one) for one in gpu["jobs"]]
        rows.append(
            (
                Cell(gpu["id"], "bold"),
                Cell(gpu["state"], _GPU_COLOURS.get(gpu["state"], "")),
                Cell(_memory(gpu)),
                Cell(f"{gpu['share_used']:.0%}" if gpu.get("share_used") else ""),
                Cell(", ".join(on_it)),
            )
        )
    return table(columns, rows)


def _memory(gpu: dict[str, Any]) -> str:
    total, reserved = gpu.get("memory_mib"), gpu.get("reserved_mib") or 0
    if not total:
        return f"{quantities.memory_text(reserved)} reserved" if reserved else ""
    if not reserved:
        return quantities.memory_text(total)
    if total >= 1024:
        return f"{reserved / 1024:.1f} of {quantities.memory_text(total)}"
    return f"{reserved} of {quantities.memory_text(total)}"


def _summary(answer: dict[str, Any], colour: bool) -> str:
    counts = answer["counts"]
    states = ("running", "stopping", "waiting", "held", *sorted(FINAL_STATES, key=STATES.index))
    words = [f"{counts[state]} {state}" for state in states if counts.get(state)]
    line = ", ".join(words) if words else "no jobs"
    cpus = answer.get("cpus") or {}
    if cpus.get("used"):
        line += f"; {cpus['used']} of {cpus['total']} CPU slots taken"
    line = painted(line, "bold", colour) + "\n"
    if answer.get("paused"):
        line += painted("the queue is paused: `stoker resume` lets it go on", "red", colour) + "\n"
    for group in answer.get("paused_groups") or []:
        words_of_group = (
            f"group {escaped(group)} is paused: `stoker resume --group {escaped(group)}`"
        )
        line += painted(words_of_group, "red", colour) + "\n"
    return line


VERB = Verb(
    "status",
    "GPUs and jobs at a glance; the same as `stoker` alone",
    run=status,
    options=(
        Option("limit", "at most so many jobs", "N", _limit),
        JSON,
    ),
    examples=(
        ("stoker", "GPUs, and the jobs that run, wait or ended last"),
        ("stoker status --json", "the same for scripts"),
    ),
)
