"""A process that Stoker did not start, as one word of the record: a job waits for it, or is it.

With its start time and the boot of the machine, a pid names one process for good.
"""

from __future__ import annotations

from typing import NamedTuple


class ForeignProcess(NamedTuple):
    """What is known of such a process since a job was queued that waits for it, or that it is."""

    pid: int
    start_time: int  # clock ticks since boot
    boot: str  # the kernel's own id of the boot
    command: str  # to be shown

    @classmethod
    def of(cls, kept: str) -> ForeignProcess:
        """The process as it was kept: see `kept`."""
        pid, start_time, boot, command = kept.split(" ", 3)
        return cls(int(pid), int(start_time), boot, command)

    @property
    def kept(self) -> str:
        """All of it as one text, by which a requirement or a job's terms name it."""
        return f"{self.pid} {self.start_time} {self.boot} {self.command}"

    @property
    def shown(self) -> str:
        """For people: "4711 (python train.py)"."""
        return f"{self.pid} ({self.command})" if self.command else str(self.pid)
