"""What the engine asks of the outside: five small protocols.

Each adapter keeps to the contract tests in tests/contract/. All calls return at once or fail;
none of them waits for a process, a driver or a network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from stoker.core.change import Change
from stoker.core.commands import Command
from stoker.core.events import Fact
from stoker.core.model import Job, Launch
from stoker.core.state import State
from stoker.core.takeover import AllowTakeovers

OURS = 0
"""As the owner of a process: it is ours, and no job's."""
VANISHED = -1
"""As the owner of a process: it is not there any more."""


class StoreFailed(Exception):
    """Nothing was written (a full disk, an I/O error); the same may succeed later."""


class BrokenRecord(Exception):
    """The record lacks what it must have: a bug of ours, and trying again won't help."""


class Store(Protocol):
    """The record: what was committed is there after any crash, and nothing else is."""

    def load(self, now_ms: int) -> State:
        """The state as of the last commit."""

    def commit(
        self, state: State, change: Change, meanwhile: Callable[[], object] | None = None
    ) -> None:
        """Write the change durably, all of it or (raising StoreFailed) nothing.

        That takes a while: `meanwhile` is called before the part for which the disk is waited for.
        """

    def make_room(self) -> bool:
        """Give up some of the room that is kept for such a moment; False if none is left.

        Called after a commit has failed, for one that stops or removes something.
        """

    def launch(self, job_id: int) -> Launch:
        """What is needed to start a job."""


class Executor(Protocol):
    """What runs attempts: processes on this machine, or a cluster.

    Commands are idempotent per (job, attempt). Facts are repeated by `observe` until `acknowledged`
    says that they are committed.
    """

    def adopt(self, active: Iterable[Job], now_ms: int) -> None:
        """See to what an earlier engine started; called once, before anything else."""

    def carry_out(
        self, commands: Sequence[Command], launch_of: Callable[[int], Launch], now_ms: int
    ) -> None:
        """Do what the state asks for."""

    def observe(self, now_ms: int) -> list[Fact]:
        """The facts that are not acknowledged yet."""

    def acknowledged(self, facts: Sequence[Fact]) -> None:
        """These facts are committed and need not be told again.

        AttemptPutBack must not be: the number of its attempt is given again, unless it is `spent`.
        """

    def next_wakeup_ms(self) -> int | None:
        """When it wants to be asked again although nothing was heard from outside."""

    def owners(self, pids: Iterable[int]) -> dict[int, int]:
        """The job of each of these processes, or OURS, or VANISHED; others' are left out."""


class Takeover(Protocol):
    """Starts the next job the moment one like it ends, as was committed beforehand.

    An executor that can't do this has none, and then no takeover is planned.
    """

    def adopt(self, standbys: Iterable[Job], now_ms: int) -> None:
        """Some of these may have taken over under an earlier engine; before `Executor.adopt`."""

    def allow(self, takeovers: AllowTakeovers | None, launch_of: Callable[[int], Launch]) -> None:
        """These are committed; whatever was allowed before does not hold any more."""

    def narrow_to(self, takeovers: AllowTakeovers | None) -> None:
        """Until the next are allowed, only what these would allow too."""

    def take_over(self, now_ms: int) -> bool:
        """Start standbys where attempts have ended; True if the turn that commits it can wait."""


@dataclass(frozen=True, slots=True)
class SeenProcess:
    """A process on a GPU, ours or not; `used_mib` is None where the driver does not tell."""

    pid: int
    used_mib: int | None
    computes: bool = True  # False: it only draws, as a desktop does


@dataclass(frozen=True, slots=True)
class SeenGpu:
    """A GPU that is there, and what was measured on it; None is what is not known."""

    id: str  # the UUID where the driver gives one, else the declared index
    memory_mib: int | None = None
    index: int | None = None  # in the order of the PCI bus
    name: str = ""
    used_mib: int | None = None
    reserved_mib: int | None = None  # by the driver itself
    utilisation_percent: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    processes: tuple[SeenProcess, ...] = ()
    fault: str = ""  # why it can't be used, e.g. "GPU is lost"
    lost: bool = False  # what runs there is lost with it
    vendor: str = ""  # "nvidia", "amd" or "stand-in"
    measured_at_ms: int | None = None
    distances: tuple[tuple[str, int], ...] = ()  # to other GPUs by id: smaller is closer


@dataclass(frozen=True, slots=True)
class Sighting:
    """What an inventory sees. `gpus` is None where GPUs are only what the user declares."""

    cpus: int
    gpus: tuple[SeenGpu, ...] | None = None
    foreign: str = "avoid"  # what to do about processes that are not ours: or "ignore", or "wait"


class Inventory(Protocol):
    """What there is to run on."""

    def observe(self) -> Sighting:
        """What is there now."""

    def read_soon(self) -> None:
        """Look again without waiting for the usual time, if that can be done."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The time, and by how much the wall clock was set since the last reading."""

    now_ms: int
    shifted_ms: int = 0


class Clock(Protocol):
    """The time of day, without surprises: a clock that is set shows as a shift."""

    def read(self) -> Reading:
        """The present time."""
