"""GPUs in columns: what each is, how it is used, and who is on it."""

from __future__ import annotations

from stoker import quantities
from stoker.text.terminal import Cell, Column, escaped, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Gpu = dict[str, Any]
    Names = dict[int, str | None]

_COLOURS = {"free": "green", "busy": "yellow", "shared": "cyan", "drained": "red",
            "removing": "red", "foreign": "magenta"}  # fmt: skip


def gpu_table(gpus: list[Gpu], jobs: list[dict[str, Any]]) -> str:
    """GPUs in columns; what is not measured is left out, and GPUs without a fault have no note."""
    names = {job["id"]: job.get("name") for job in jobs}
    if any(gpu.get("measured_at_ms") is not None for gpu in gpus):
        return _measured_table(gpus, names)
    columns = (
        Column("GPU", least=12),
        Column("STATE"),
        Column("MEMORY"),
        Column("USED", right=True),
        Column("JOBS", least=16),
    )
    rows = [
        (
            Cell(gpu["id"], "bold"),
            _state(gpu),
            Cell(_reserved(gpu)),
            Cell(f"{gpu['share_used']:.0%}" if gpu.get("share_used") else ""),
            Cell(_jobs(gpu, names)),
        )
        for gpu in gpus
    ]
    return table(columns, rows)


def _measured_table(gpus: list[Gpu], names: Names) -> str:
    columns = (
        Column("GPU"),
        Column("NAME", least=6),
        Column("STATE"),
        Column("USE", right=True),
        Column("OURS", right=True),
        Column("OTHERS", right=True),
        Column("FREE", right=True),
        Column("RESERVED", right=True),
        Column("TEMP", right=True),
        Column("POWER", right=True),
        Column("JOBS", least=12),
    )
    rows = [
        (
            Cell(gpu["id"], "bold"),
            Cell(_short_name(gpu.get("name") or "")),
            _state(gpu),
            Cell(_told(gpu, "utilisation_percent", "{}%".format)),
            Cell(_told(gpu, "ours_mib", _gib)),
            Cell(_told(gpu, "others_mib", _gib), "magenta" if gpu.get("others_mib") else ""),
            Cell(_told(gpu, "free_mib", _gib)),
            Cell(_gib(gpu.get("reserved_mib") or 0)),
            Cell(_told(gpu, "temperature_c", "{}C".format)),
            Cell(_told(gpu, "power_w", "{:.0f}W".format)),
            Cell(_on_it(gpu, names)),
        )
        for gpu in gpus
    ]
    return table(columns, rows)


def _state(gpu: Gpu) -> Cell:
    return Cell(gpu["state"], _COLOURS.get(gpu["state"], ""))


def _told(gpu: Gpu, key: str, text: Callable[[Any], str]) -> str:
    value = gpu.get(key)
    return "-" if value is None else text(value)


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f}G"


def _short_name(name: str) -> str:
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def _jobs(gpu: Gpu, names: Names) -> str:
    return ", ".join(f"{one} {names[one]}" if names.get(one) else str(one) for one in gpu["jobs"])


def _on_it(gpu: Gpu, names: Names) -> str:
    """Jobs, then other processes, then what is wrong."""
    parts = [_jobs(gpu, names)] if gpu["jobs"] else []
    for other in gpu.get("foreign") or []:
        program = (other.get("command") or "?").split(" ")[0].rpartition("/")[2]
        memory = "" if other.get("used_mib") is None else f" {_gib(other['used_mib'])}"
        parts.append(f"[{other.get('user') or 'somebody'}: {program} {other['pid']}{memory}]")
    if gpu.get("fault"):
        parts.append(gpu["fault"])
    elif gpu.get("stale"):
        parts.append("(old reading)")
    return " ".join(parts)


def _reserved(gpu: Gpu) -> str:
    total, reserved = gpu.get("memory_mib"), gpu.get("reserved_mib") or 0
    if not total:
        return f"{quantities.memory_text(reserved)} reserved" if reserved else ""
    if not reserved:
        return quantities.memory_text(total)
    if total >= 1024:
        return f"{reserved / 1024:.1f} of {quantities.memory_text(total)}"
    return f"{reserved} of {quantities.memory_text(total)}"


def no_gpus(why: str | None) -> str:
    """What to do where there are no GPUs, and why none were found."""
    found = f" ({escaped(why)})" if why else ""
    return f"no GPUs yet{found}: declare them with `stoker config set gpus 0,1`"
