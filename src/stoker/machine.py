"""Where a process runs: on which machine, in which boot of it, and in which PID namespace.

A pid means something only in the PID namespace where it was given, and only until the machine is
started anew. A directory may be seen by many machines, and by many containers of one.

What tells machines apart:
- The boot id is random and the kernel's own: two processes with the same one are on the same
  machine, whatever a container's files or its host name say. Locks reach as far as that, too.
- The machine id stays through a restart. It is missing in many containers, and equal in machines
  that were copied from one image, so the host name counts as well (see `Place.is_machine_of`).
"""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")


def user_name(uid: int) -> str:
    """Who that is by the system's own book, else the number."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class Place(NamedTuple):
    """One PID namespace of one boot of one machine."""

    machine: str
    host: str
    boot: str
    namespace: str

    def sees(self, other: Place) -> bool:
        """True if a pid of the other place means the same here."""
        return self.boot == other.boot and self.namespace == other.namespace

    def is_machine_of(self, other: Place, *, shared: bool) -> bool:
        """True if both are on one machine; `shared`: other machines see the directory as well.

        Copies of one machine have its id, and mostly names of their own. But a machine may get
        another name; where only one can see the directory, that does not make it another.
        """
        if self.boot == other.boot:
            return True
        if self.machine != other.machine:
            return False
        return self.host == other.host or (self.machine != "" and not shared)


def process_start(pid: int) -> int | None:
    """When the process with that pid began, in clock ticks since boot; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read(4096)
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # Its name may have spaces in it.
    return None if fields[0] in b"ZX" else int(fields[19])


@cache
def boot_id() -> str:
    """Names this boot of the machine: pids of another one mean nothing."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


@cache
def here() -> Place:
    """Where this process runs."""
    return Place(_machine(), os.uname().nodename, boot_id(), pid_namespace())


def _machine() -> str:
    """A name made from the machine id, which itself is not to be handed around."""
    import hashlib

    for path in _MACHINE_IDS:
        try:
            with open(path, "rb") as file:
                found = file.read(200).strip()
        except OSError:
            continue
        if len(found) == 32:  # It may be empty, or say that there is none yet.
            return hashlib.blake2b(found, digest_size=8, person=b"stoker").hexdigest()
    return ""


def pid_namespace() -> str:
    """Names this PID namespace for good: its number is given to others later, so with its start."""
    try:
        number = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        number = ""
    try:
        with open("/proc/1/stat", "rb") as file:
            text = file.read(4096)
        began = text[text.rindex(b")") + 2 :].split()[19].decode("ascii")
    except (OSError, ValueError, IndexError):
        began = ""  # The first process may be hidden from us.
    return f"{number}-{began}"
