"""Numbers for Prometheus, in its text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

Sample = tuple[dict[str, str], float | int]

# The values of a GPU, as far as they are known: name, field, factor, help.
_OF_GPUS = (
    ("stoker_gpu_memory_bytes", "memory_mib", 2**20, "memory of a GPU"),
    ("stoker_gpu_memory_reserved_bytes", "reserved_mib", 2**20, "memory reserved on a GPU"),
    ("stoker_gpu_memory_used_bytes", "used_mib", 2**20, "memory in use on a GPU, by all programs"),
    ("stoker_gpu_memory_ours_bytes", "ours_mib", 2**20, "memory that Stoker's jobs use on a GPU"),
    ("stoker_gpu_utilisation_ratio", "utilisation_percent", 0.01, "how busy a GPU is"),
    ("stoker_gpu_temperature_celsius", "temperature_c", 1, "how warm a GPU is"),
    ("stoker_gpu_power_watts", "power_w", 1, "the power that a GPU takes"),
)


def text(status: dict[str, Any], refused: dict[str, int]) -> str:
    """The metrics of what `status` told, and of the requests that the page refused."""
    return "".join(f"{line}\n" for line in _lines(status, refused))


def _lines(status: dict[str, Any], refused: dict[str, int]) -> Iterator[str]:
    gpus, cpus, daemon = status["gpus"], status["cpus"], status["daemon"]
    jobs = [({"state": state}, count) for state, count in sorted(status["counts"].items())]
    on_gpus: list[Sample] = [(_of(gpu), len(gpu["jobs"])) for gpu in gpus]
    yield from _metric("stoker_jobs", "jobs by state", jobs)
    yield from _metric("stoker_cpu_slots", "CPU slots for jobs", [({}, cpus["total"])])
    yield from _metric("stoker_cpu_slots_used", "CPU slots in use", [({}, cpus["used"])])
    yield from _metric("stoker_queue_paused", "1 if nothing starts", [({}, int(status["paused"]))])
    yield from _metric("stoker_gpus", "GPUs by state", _by_state(gpus))
    yield from _metric("stoker_gpu_jobs", "jobs on a GPU", on_gpus)
    for name, field, factor, help_text in _OF_GPUS:
        yield from _metric(name, help_text, _values(gpus, field, factor))
    uptime: list[Sample] = [({}, daemon["uptime_s"])]
    yield from _metric("stoker_daemon_uptime_seconds", "how long the daemon runs", uptime)
    yield from _metric("stoker_info", "the version", [({"version": daemon["version"]}, 1)])
    refusals = [({"reason": reason}, count) for reason, count in sorted(refused.items())]
    help_text = "requests that the page refused"
    yield from _metric("stoker_page_refused_total", help_text, refusals, kind="counter")


def _by_state(gpus: list[dict[str, Any]]) -> list[Sample]:
    counts = Counter(gpu["state"] for gpu in gpus)
    return [({"state": state}, count) for state, count in sorted(counts.items())]


def _values(gpus: list[dict[str, Any]], field: str, factor: float) -> list[Sample]:
    return [
        (_of(gpu), gpu[field] * factor) for gpu in gpus if isinstance(gpu.get(field), int | float)
    ]


def _of(gpu: dict[str, Any]) -> dict[str, str]:
    return {"gpu": str(gpu["id"])}


def _metric(
    name: str, help_text: str, samples: Iterable[Sample], kind: str = "gauge"
) -> Iterator[str]:
    samples = list(samples)
    if not samples:
        return
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        marks = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        number = int(value) if value == int(value) else value
        yield f"{name}{{{marks}}} {number}" if marks else f"{name} {number}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
