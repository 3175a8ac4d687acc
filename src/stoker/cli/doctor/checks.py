"""What the facts mean: a table of checks, each a pure function of the facts.

A check gives what it found and, if that is wrong, what to do. `todo` is a sentence or a command.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import NamedTuple

from stoker.cli.doctor.facts import PAGE_PORT, Facts, Limit
from stoker.installing import install_command

_GIB = 1 << 30
_LEAST_DISK = 2 * _GIB
_LEAST_FILES = 10_000
_LEAST_MEMORY = _GIB
_LEAST_PROCESSES = 256
_LEAST_OPEN_FILES = 4096
_LEAST_SHARED_MEMORY = 256 << 20  # Containers have 64 MiB if nothing else was said.


class Finding(NamedTuple):
    """What one check found; all is well if there is nothing to do."""

    text: str
    todo: str = ""


def daemon(facts: Facts) -> Finding:
    """Whether it answers."""
    if facts.daemon_trouble:
        return Finding("it does not answer", facts.daemon_trouble)
    return Finding(f"answers, version {facts.daemon_version}")


def versions(facts: Facts) -> Finding:
    """Whether daemon and command are of one version."""
    if facts.daemon_version and facts.daemon_version != facts.version:
        return Finding(
            f"this is Stoker {facts.version}, and its daemon is {facts.daemon_version}",
            "run: stoker daemon restart (jobs continue)",
        )
    return Finding(f"Stoker {facts.version}, Python {facts.python}")


def libraries(facts: Facts) -> Finding:
    """Whether what Stoker needs is there, and new enough."""
    if not facts.wrong_libraries:
        return Finding("all are there, and new enough")
    said = ", ".join(
        f"{name} {found} is too old" if found else f"{name} is missing"
        for name, found, _ in facts.wrong_libraries
    )
    names = [name for name, _, _ in facts.wrong_libraries]
    return Finding(said, f"run: {install_command(*names)}")


def installation(facts: Facts) -> Finding:
    """Whether Stoker's files are its own, and its command is the one that is found."""
    if facts.missing_files:
        what, _, todo = facts.missing_files[0].partition("; ")
        return Finding(what, todo)
    if facts.other_program:
        whose = "Stoker" if facts.other_program.endswith("/stoker") else "tool's or Stoker's"
        return Finding(
            f"{facts.other_program} is found first on PATH, and is another {whose}",
            "uninstall one of them, or change PATH",
        )
    return Finding("complete")


def driver(facts: Facts) -> Finding:
    """Whether there are GPUs, and a driver that shows them."""
    measured = [gpu for gpu in facts.gpus if not gpu["declared"]]
    if measured:
        version = f", NVIDIA driver {facts.driver}" if facts.driver else ""
        return Finding(f"{_count(len(measured), 'GPU')}{version}")
    if facts.vendors:
        return Finding(
            f"this machine has GPUs of {' and '.join(facts.vendors)}, and no driver shows them",
            facts.why_none_measured or "install the driver, and see that `nvidia-smi` works",
        )
    if facts.gpus:
        return Finding(f"{_count(len(facts.gpus), 'GPU')}, declared by hand")
    if facts.daemon_trouble:
        return Finding("not known without the daemon")
    return Finding("no GPU was found", "declare what there is: stoker config set gpus 0-3:24G")


def gpu_faults(facts: Facts) -> Finding:
    """Whether any GPU is of no use just now."""
    wrong = [f"GPU {gpu['id']}: {gpu['fault']}" for gpu in facts.gpus if gpu.get("fault")]
    if wrong:
        return Finding("; ".join(wrong), "reset the GPU or reboot; then: stoker gpus resume ID")
    return Finding("none")


def device_files(facts: Facts) -> Finding:
    """Whether this user may use the GPUs."""
    if facts.closed_devices:
        return Finding(
            f"you may not use {', '.join(facts.closed_devices)}",
            "ask to be put into the group of these files, often video or render",
        )
    return Finding("the device files can be used")


def mps(facts: Facts) -> Finding:
    """Whether MPS can be used, and is used only as Stoker says."""
    if facts.others_mps:
        return Finding(
            f"a control daemon that Stoker did not start uses {facts.others_mps}, and jobs may too",
            "end it: echo quit | nvidia-cuda-mps-control; or run no jobs with --mps",
        )
    if facts.mps_program:
        return Finding(f"can be used: {facts.mps_program}")
    if facts.mps_by_default:
        return Finding(
            "nvidia-cuda-mps-control is not on PATH, and `stoker config` has mps on",
            "install it with the driver, or run: stoker config set mps off",
        )
    return Finding("not installed; only jobs with --mps need it")


def disk(facts: Facts) -> Finding:
    """Whether there is room for the state, and a restart leaves it there."""
    kind = facts.file_system or "an unknown file system"
    free = f"{facts.free_bytes / _GIB:.1f} GiB"
    if facts.free_bytes < _LEAST_DISK:
        return Finding(f"only {free} are free at {facts.home}", "delete something: stoker rm, logs")
    if facts.free_files < _LEAST_FILES:
        return Finding(
            f"only {facts.free_files} more files fit at {facts.home}", "delete some: stoker rm"
        )
    if kind in ("tmpfs", "ramfs"):
        return Finding(
            f"{facts.home} is on {kind}, and is gone after a restart of the machine",
            "set STOKER_HOME to a directory on a disk",
        )
    return Finding(f"{kind}, {free} free at {facts.home}")


def home(facts: Facts) -> Finding:
    """Whose the state is, if other machines can have it too."""
    if facts.owner:
        return Finding(
            f"{facts.home} belongs to {facts.owner}",
            "set STOKER_HOME; if that machine is gone for good: stoker daemon claim",
        )
    if facts.shared:
        return Finding(
            f"{facts.home} is on {facts.file_system}, which other machines may share",
            "unset STOKER_HOME, or set it to a directory on a local disk",
        )
    if facts.logs:
        return Finding(f"on the network; state is in {facts.home}, logs are in {facts.logs}")
    return Finding("on a local disk")


def permissions(facts: Facts) -> Finding:
    """Whether the state is this user's alone."""
    if not facts.is_mine:
        return Finding(f"{facts.home} belongs to another user", "set STOKER_HOME to one of yours")
    if facts.mode & 0o077:
        return Finding(
            f"{facts.home} is open to other users", f"run: chmod 700 {shlex.quote(facts.home)}"
        )
    return Finding("only you can enter the state directory")


def service(facts: Facts) -> Finding:
    """Whether the daemon comes back with the machine."""
    if not facts.has_systemd:
        return Finding("no systemd; the daemon starts with the first command")
    if not facts.has_unit:
        return Finding("no unit; `stoker daemon install-service` starts Stoker with the machine")
    if not facts.lingers:
        return Finding(
            "the unit is there, and runs only while you are logged in",
            "run: loginctl enable-linger",
        )
    return Finding("the unit is there, and starts with the machine")


def logout(facts: Facts) -> Finding:
    """Whether daemon and jobs outlive a session."""
    if facts.kills_at_logout and not facts.lingers:
        return Finding(
            "KillUserProcesses=yes: your jobs end when you log out", "run: loginctl enable-linger"
        )
    return Finding("jobs continue when you log out")


def port(facts: Facts) -> Finding:
    """Whether the page has its port."""
    if facts.page_url:
        return Finding(f"the page is at {facts.page_url}")
    if facts.page_trouble:
        return Finding(f"the page is not served: {facts.page_trouble}", "run: stoker web")
    if facts.port_is_taken:
        taken = f"port {PAGE_PORT} is taken by another program"
        return Finding(f"{taken}; `stoker web` takes the next free one")
    return Finding(f"port {PAGE_PORT} is free")


def open_files(facts: Facts) -> Finding:
    """Whether the daemon can hold enough logs and connections open."""
    if facts.open_files < _LEAST_OPEN_FILES:
        return Finding(
            f"at most {facts.open_files} files can be open",
            f"raise the hard limit (ulimit -Hn) to {_LEAST_OPEN_FILES} or more",
        )
    return Finding(f"up to {facts.open_files}")


def memory(facts: Facts) -> Finding:
    """Whether the control group leaves memory for jobs."""
    advice = "raise the limit of this container or session (docker run --memory)"
    return _of_limit(facts.memory, _LEAST_MEMORY, "{:.1f} GiB of {:.1f} GiB are left", advice, _GIB)


def processes(facts: Facts) -> Finding:
    """Whether the control group leaves processes for jobs."""
    advice = "raise the limit of this container (docker run --pids-limit)"
    said = "{:.0f} of {:.0f} processes are left"
    return _of_limit(facts.processes, _LEAST_PROCESSES, said, advice, 1)


def cpus(facts: Facts) -> Finding:
    """Whether the control group gives a whole CPU."""
    if facts.cpus is None:
        return Finding("no limit")
    if facts.cpus < 1:
        return Finding(
            f"this container has {facts.cpus:.2f} of a CPU", "give it more (docker run --cpus)"
        )
    return Finding(f"{facts.cpus:g} CPUs")


def shared_memory(facts: Facts) -> Finding:
    """Whether workers of a data loader can pass batches on: a container has little of it."""
    if facts.shared_memory_bytes is None:
        return Finding("/dev/shm is no tmpfs; nothing is known of its size")
    said = f"/dev/shm has {facts.shared_memory_bytes >> 20} MiB"
    if facts.shared_memory_bytes < _LEAST_SHARED_MEMORY:
        return Finding(
            f"{said}, too little for data loaders with several workers",
            "start the container with --shm-size=8g or --ipc=host",
        )
    return Finding(said)


def _of_limit(limit: Limit, least: int, said: str, advice: str, unit: int) -> Finding:
    if limit.most is None:
        return Finding("no limit")
    left = max(0, limit.most - limit.used)
    return Finding(said.format(left / unit, limit.most / unit), advice if left < least else "")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


CHECKS: tuple[tuple[str, Callable[[Facts], Finding]], ...] = (
    ("daemon", daemon),
    ("versions", versions),
    ("libraries", libraries),
    ("installation", installation),
    ("driver and GPUs", driver),
    ("faults of GPUs", gpu_faults),
    ("device files", device_files),
    ("MPS", mps),
    ("disk", disk),
    ("home", home),
    ("permissions", permissions),
    ("service", service),
    ("logging out", logout),
    ("page", port),
    ("open files", open_files),
    ("memory", memory),
    ("processes", processes),
    ("CPUs", cpus),
    ("shared memory", shared_memory),
)


def findings(facts: Facts) -> list[tuple[str, Finding]]:
    """What each check found, in the order of the table."""
    return [(name, check(facts)) for name, check in CHECKS]
