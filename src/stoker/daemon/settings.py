"""What a user can set with `stoker config`; every setting takes effect at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stoker.quantities import duration_ms, whole_number


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting; `canonical` checks a value and says how it was understood."""

    name: str
    default: str
    help: str
    canonical: Callable[[str], str]


def _cpus(text: str) -> str:
    return text if text == "auto" else str(whole_number(text, 0, 1_000_000, "number of CPU slots"))


def _grace(text: str) -> str:
    duration_ms(text)
    return text.strip()


GPUS = "gpus"
CPUS = Setting(
    "cpus", "auto", "CPU slots that jobs may use together; auto: as many as there are CPUs", _cpus
)
GRACE = Setting(
    "grace", "30s", "how long a job that is told to stop may take before it is killed", _grace
)

BY_NAME: dict[str, Setting] = {setting.name: setting for setting in (CPUS, GRACE)}


def cpus_of(values: dict[str, str]) -> int | None:
    """The CPU slots that were set; None for as many as there are."""
    text = values.get(CPUS.name, CPUS.default)
    return None if text == "auto" else int(text)


def grace_ms_of(values: dict[str, str]) -> int:
    """The grace time of jobs that name none."""
    return duration_ms(values.get(GRACE.name, GRACE.default))
