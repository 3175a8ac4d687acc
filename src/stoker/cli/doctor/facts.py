"""What `stoker doctor` looks at. Nothing is judged here, and nothing is changed.

Each fact is a plain value, so that a test can put any other in its place.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from stoker import __version__
from stoker.api.client import Client
from stoker.api.filesystems import kind_of
from stoker.api.installed import COMMANDS, what_is_missing
from stoker.api.paths import Home
from stoker.api.standing import standing
from stoker.cli.service import unit_path
from stoker.errors import StokerError
from stoker.installing import wrong_libraries
from stoker.wholefile import text_of

PAGE_PORT = 4004
_MPS = "nvidia-cuda-mps-control"
_NVIDIA, _AMD = "0x10de", "0x1002"


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a control group and what of it is in use; None: no limit."""

    most: int | None = None
    used: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """All of them."""

    version: str = __version__
    python: str = ""
    # the daemon, and what it says
    daemon_trouble: str = ""
    daemon_version: str = ""
    gpus: tuple[dict[str, Any], ...] = ()
    why_none_measured: str = ""
    mps_by_default: bool = False
    page_url: str = ""
    page_trouble: str = ""
    # GPUs
    vendors: tuple[str, ...] = ()  # whose devices are on the bus
    driver: str = ""
    closed_devices: tuple[str, ...] = ()
    mps_program: str = ""
    others_mps: str = ""
    # what is installed
    wrong_libraries: tuple[tuple[str, str, str], ...] = ()  # name, found, needed
    missing_files: tuple[str, ...] = ()
    other_program: str = ""
    # the state directory
    home: str = ""
    file_system: str = ""
    shared: bool = False
    logs: str = ""
    owner: str = ""  # the machine that has it, if that is another
    free_bytes: int = 1 << 40
    free_files: int = 1 << 30
    is_mine: bool = True
    mode: int = 0o700
    # systemd, and logging out
    has_systemd: bool = False
    has_unit: bool = False
    lingers: bool = False
    kills_at_logout: bool = False
    # limits
    port_is_taken: bool = False
    open_files: int = 1 << 20
    memory: Limit = Limit()
    processes: Limit = Limit()
    cpus: float | None = None
    shared_memory_bytes: int | None = None


def gather() -> Facts:
    """The facts of now; the daemon is started if none runs."""
    home = Home.from_environment()
    return Facts(
        python=f"{sys.version_info.major}.{sys.version_info.minor} ({sys.executable})",
        **_of_daemon(home),
        **_of_gpus(),
        **_of_installation(),
        **of_directory(home),
        **_of_session(),
        **_of_limits(),
    )


def _of_daemon(home: Home) -> dict[str, Any]:
    try:
        with Client(home) as client:
            hello, gpus = client.call("hello"), client.call("gpus")
            settings = client.call("config_get", name="mps")["settings"]
            page = client.call("page_status")
    except StokerError as error:
        return {"daemon_trouble": "; ".join(filter(None, (error.message, error.hint)))}
    return {
        "daemon_version": hello["version"],
        "gpus": tuple(gpus["gpus"]),
        "why_none_measured": gpus.get("why") or "",
        "mps_by_default": settings[0]["value"] == "on",
        "page_url": page.get("url") or "",
        "page_trouble": page.get("trouble") or "",
    }


# --- GPUs -----------------------------------------------------------------------------------------


def _of_gpus() -> dict[str, Any]:
    names = glob.glob("/dev/nvidia[0-9]*") + glob.glob("/dev/nvidiactl") + glob.glob("/dev/kfd")
    closed = [name for name in sorted(names) if not os.access(name, os.R_OK | os.W_OK)]
    pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps"
    return {
        "vendors": vendors_on_bus("/sys/bus/pci/devices"),
        "driver": driver_version(text_of("/proc/driver/nvidia/version")),
        "closed_devices": tuple(closed),
        "mps_program": shutil.which(_MPS) or "",
        "others_mps": pipe if os.path.exists(os.path.join(pipe, "control")) else "",
    }


def driver_version(text: str) -> str:
    """The version in `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar ...`."""
    words = text.partition("Module")[2].split()
    return next((word for word in words if word[0].isdigit()), "")


def vendors_on_bus(devices: str) -> tuple[str, ...]:
    """Whose GPUs are on the PCI bus: displays and accelerators of these two."""
    found = set()
    for folder in glob.glob(os.path.join(devices, "*")):
        vendor = text_of(os.path.join(folder, "vendor")).strip()
        kind = text_of(os.path.join(folder, "class")).strip()
        if vendor in (_NVIDIA, _AMD) and kind.startswith(("0x03", "0x12")):
            found.add("NVIDIA" if vendor == _NVIDIA else "AMD")
    return tuple(sorted(found))


# --- what is installed ----------------------------------------------------------------------------


def _of_installation() -> dict[str, Any]:
    return {
        "wrong_libraries": wrong_libraries(),
        "missing_files": tuple(what_is_missing()),
        "other_program": _other_program(),
    }


def _other_program() -> str:
    """The first command on PATH that hides one of ours; a link to ours hides nothing."""
    folder, this = os.path.split(os.path.realpath(sys.argv[0]))
    for name in ("stoker", *COMMANDS) if this == "stoker" else ():
        first = shutil.which(name)
        if first and os.path.realpath(first) != os.path.realpath(os.path.join(folder, name)):
            return first
    return ""


# --- the state directory --------------------------------------------------------------------------


def of_directory(home: Home) -> dict[str, Any]:
    """Whose the state directory is, on what, and how much room it has."""
    try:
        place = standing(home)
    except StokerError:
        return {"home": home.root}  # The daemon's line says why.
    facts: dict[str, Any] = {
        "home": home.root,
        "file_system": place["file_system"] or "",
        "shared": place["is_shared"],
        "logs": place["logs"] or "",
        "owner": "" if place["is_here"] else place["claim"] or "another machine",
    }
    at = home.root
    while not os.path.isdir(at):
        at = os.path.dirname(at)
    room = os.statvfs(at)
    facts["free_bytes"] = room.f_bavail * room.f_frsize
    # Some file systems (btrfs) do not count files.
    facts["free_files"] = room.f_favail if room.f_files else Facts().free_files
    if at == home.root:
        status = os.stat(at)
        facts |= {"is_mine": status.st_uid == os.geteuid(), "mode": status.st_mode & 0o777}
    return facts


# --- systemd --------------------------------------------------------------------------------------


def _of_session() -> dict[str, Any]:
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    if not os.path.isdir("/run/systemd/system"):
        return {}
    return {
        "has_systemd": True,
        "has_unit": os.path.exists(unit_path()),
        "lingers": os.path.exists(f"/var/lib/systemd/linger/{user}"),
        # logind leaves root's processes alone unless it is told otherwise.
        "kills_at_logout": os.geteuid() != 0 and _logind_kills(),
    }


def _logind_kills() -> bool:
    """What logind itself says: the default differs between distributions."""
    manager = ("org.freedesktop.login1", "/org/freedesktop/login1")
    words = ["busctl", "get-property", *manager, f"{manager[0]}.Manager", "KillUserProcesses"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.strip() == "b true"


# --- limits ---------------------------------------------------------------------------------------


def _of_limits() -> dict[str, Any]:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    memory, processes, cpus = group_limits("/sys/fs/cgroup", text_of("/proc/self/cgroup"))
    shared: int | None = None
    if kind_of("/dev/shm") == "tmpfs":
        room = os.statvfs("/dev/shm")
        shared = room.f_blocks * room.f_frsize
    return {
        "port_is_taken": _port_is_taken(),
        "open_files": Facts().open_files if hard == resource.RLIM_INFINITY else hard,
        "memory": memory,
        "processes": processes,
        "cpus": cpus,
        "shared_memory_bytes": shared,
    }


def _port_is_taken() -> bool:
    import errno
    import socket

    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", PAGE_PORT))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def group_limits(root: str, membership: str) -> tuple[Limit, Limit, float | None]:
    """Memory in bytes, processes, and CPUs that this control group and those above it may have."""
    folder = next((line[3:] for line in membership.splitlines() if line.startswith("0::")), "/")
    memory, processes, cpus = Limit(), Limit(), None
    folders = [folder.strip("/")]
    while folders[-1]:
        folders.append(os.path.dirname(folders[-1]))
    for one in folders:
        at = os.path.join(root, one)
        memory = _tighter(memory, at, "memory.max", "memory.current")
        processes = _tighter(processes, at, "pids.max", "pids.current")
        quota, _, period = text_of(os.path.join(at, "cpu.max")).strip().partition(" ")
        if quota.isdigit() and period.isdigit():
            cpus = min(cpus or float("inf"), int(quota) / int(period))
    return memory, processes, cpus


def _tighter(known: Limit, folder: str, most: str, used: str) -> Limit:
    said = text_of(os.path.join(folder, most)).strip()
    if not said.isdigit() or (known.most is not None and known.most <= int(said)):
        return known
    return Limit(int(said), int(text_of(os.path.join(folder, used)).strip() or 0))
