"""What is run in the simulated world, and its time."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core.model import Cause, Exit
from stoker.ports import Reading
from stoker.sim.devices import Phase


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a simulated command does when it is run."""

    runs_ms: int
    exit: Exit
    heeds_stop_after_ms: int | None = 10  # None: only SIGKILL ends it
    cannot_start: Cause | None = None  # set: no process can be made for it
    heeds_by: Exit | None = None  # how it ends when it is asked to; None: by the signal
    heeds_warning: bool = False  # by ending in the same way
    progresses: bool = True
    saves_every_ms: int | None = None  # besides when it is asked to end
    phases: tuple[Phase, ...] = ()  # what it does on its GPUs; without any, it leaves no trace


@dataclass(slots=True)
class Process:
    """A running attempt, in true time."""

    behaviour: Behaviour
    started_at_ms: int
    ends_at_ms: int
    exit: Exit
    attached: bool = False
    warned: int = 0
    forced: bool = False
    told: bool = False  # when to end; else it ends when its work is done
    stopped_at_ms: int | None = None  # it does not run, until it is continued
    stood_ms: int = 0  # how long it did not, before
    asked: bool = False  # to end while it was stopped, and could not heed it

    def ran_ms(self, true_ms: int) -> int:
        """How long it has run until then."""
        stood_ms = self.stood_ms
        if self.stopped_at_ms is not None:
            stood_ms += true_ms - self.stopped_at_ms
        return true_ms - self.started_at_ms - stood_ms

    def saved_at_ms(self, true_ms: int) -> int:
        """When it last saved its work by then, or started."""
        every_ms = self.behaviour.saves_every_ms
        ran_ms = true_ms - self.started_at_ms
        return self.started_at_ms + (ran_ms // every_ms * every_ms if every_ms else 0)

    def unsaved_ms(self, true_ms: int) -> int:
        """How much of its work would be lost then."""
        return true_ms - self.saved_at_ms(true_ms)


@dataclass(slots=True)
class VirtualClock:
    """Time that moves only when it is told to.

    The true time never jumps, and the world lives by it. The engine is shown the wall clock, which
    may be set.
    """

    true_ms: int = 0
    wall_ahead_ms: int = 1_700_000_000_000
    unread_shift_ms: int = 0

    @property
    def now_ms(self) -> int:
        """The time on the wall."""
        return self.true_ms + self.wall_ahead_ms

    def read(self) -> Reading:
        """See ports.Clock."""
        shifted, self.unread_shift_ms = self.unread_shift_ms, 0
        return Reading(self.now_ms, shifted)

    def set_wall(self, by_ms: int) -> None:
        """The wall clock is set."""
        self.wall_ahead_ms += by_ms
        self.unread_shift_ms += by_ms
