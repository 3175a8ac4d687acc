"""What a user can set with `stoker config`; every setting takes effect at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stoker.core.learning import Habits
from stoker.daemon.submission import Defaults
from stoker.errors import UsageError
from stoker.quantities import (
    duration_ms,
    memory_margin,
    positive_duration_ms,
    quoted,
    whole_number,
)


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


def _one_of(*words: str) -> Callable[[str], str]:
    def canonical(text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise UsageError(f"{quoted(text)} is not understood", f"use {' or '.join(words)}")
        return word

    return canonical


def _margin(text: str) -> str:
    memory_margin(text)
    return text.strip()


def _positive(text: str) -> str:
    positive_duration_ms(text)
    return text.strip()


GPUS = "gpus"
CPUS = Setting(
    "cpus", "auto", "CPU slots that jobs may use together; auto: as many as there are CPUs", _cpus
)
GRACE = Setting(
    "grace", "30s", "how long a job that is told to stop may take before it is killed", _grace
)
MEM = Setting(
    "mem",
    "whole",
    "GPU memory of jobs that do not say: whole GPUs, or auto, as their kind was seen to use",
    _one_of("whole", "auto"),
)
MEM_MARGIN = Setting(
    "mem-margin",
    "10%",
    "what is reserved over the most that was seen: a percentage (at least 512M), or a size",
    _margin,
)
SETTLE = Setting(
    "settle", "30s", "GPU memory that has not grown for so long is taken to be all of it", _positive
)
FOREIGN = Setting(
    "foreign",
    "avoid",
    "programs on GPUs that are not Stoker's: avoid (use only what they leave), wait (put nothing "
    "beside them), ignore",
    _one_of("avoid", "wait", "ignore"),
)
POLL = Setting("poll", "1s", "how often GPUs on which something runs are read", _positive)
DRIVER = Setting(
    "driver",
    "auto",
    "auto: use the GPUs that a driver shows; off: only declared ones (after a restart)",
    _one_of("auto", "off"),
)

BY_NAME: dict[str, Setting] = {
    setting.name: setting
    for setting in (CPUS, GRACE, MEM, MEM_MARGIN, SETTLE, FOREIGN, POLL, DRIVER)
}


def value_of(setting: Setting, values: Mapping[str, str]) -> str:
    """What is set, or else usual."""
    return values.get(setting.name, setting.default)


def cpus_of(values: Mapping[str, str]) -> int | None:
    """The CPU slots that were set; None for as many as there are."""
    text = value_of(CPUS, values)
    return None if text == "auto" else int(text)


def defaults_of(values: Mapping[str, str]) -> Defaults:
    """What jobs have that say nothing else."""
    return Defaults(
        duration_ms(value_of(GRACE, values)),
        value_of(MEM, values) == "auto",
        memory_margin(value_of(MEM_MARGIN, values)),
    )


def habits_of(values: Mapping[str, str]) -> Habits:
    """How to learn from readings."""
    return Habits(duration_ms(value_of(SETTLE, values)))


def poll_s_of(values: Mapping[str, str]) -> float:
    """How often to read GPUs."""
    return duration_ms(value_of(POLL, values)) / 1000
