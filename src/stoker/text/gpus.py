"""GPUs in columns: what each is, how it is used, and who is on it."""

from __future__ import annotations

from stoker import quantities
from stoker.text.terminal import Column, escaped, table

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
    state = Column("STATE", "state", lambda gpu: _COLOURS.get(gpu["state"], ""))
    if any(gpu.get("measured_at_ms") is not None for gpu in gpus):
        return table(_measured_columns(state, names), gpus)
    columns = (
        Column("GPU", "id", "bold", least=12),
        state,
        Column("MEMORY", _reserved),
        Column("USED", lambda gpu: f"{gpu['share_used']:.0%}" if gpu.get("share_used") else "",
               right=True),
        Column("JOBS", lambda gpu: _jobs(gpu, names), least=16),
    )  # fmt: skip
    return table(columns, gpus)


def _measured_columns(state: Column, names: Names) -> tuple[Column, ...]:
    def told(title: str, key: str, text: Callable[[Any], str], colour: str = "") -> Column:
        def of(gpu: Gpu) -> str:
            return "-" if gpu.get(key) is None else text(gpu[key])

        return Column(title, of, lambda gpu: colour if gpu.get(key) else "", right=True)

    return (
        Column("GPU", "id", "bold"),
        Column("NAME", lambda gpu: _short_name(gpu.get("name") or ""), least=6),
        state,
        told("USE", "utilisation_percent", "{}%".format),
        told("OURS", "ours_mib", gib),
        told("OTHERS", "others_mib", gib, "magenta"),
        told("FREE", "free_mib", gib),
        Column("RESERVED", lambda gpu: gib(gpu.get("reserved_mib") or 0), right=True),
        told("TEMP", "temperature_c", "{}C".format),
        told("POWER", "power_w", "{:.0f}W".format),
        Column("JOBS", lambda gpu: _on_it(gpu, names), least=12),
    )


def gib(mib: int) -> str:
    """Memory in a column."""
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
        memory = "" if other.get("used_mib") is None else f" {gib(other['used_mib'])}"
        parts.append(f"[{other.get('user') or '?'}: {program} {other['pid']}{memory}]")
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
