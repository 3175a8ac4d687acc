"""How much room is left: what is read, when, and what the state is told of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from stoker.core.shortage import LowDisk
from stoker.core.state import State
from stoker.daemon.disk_room import DiskWatch, LeastRoom, Room, least_room
from stoker.engine import Proposal
from stoker.errors import UsageError

MIB = 1024 * 1024
GIB = 1024 * MIB


@pytest.mark.parametrize(
    ("text", "of_100_gib", "of_10_tib"),
    [
        ("5%", 5 * GIB, 512 * GIB),
        ("20G", 20 * GIB, 20 * GIB),
        ("5%,20G", 5 * GIB, 20 * GIB),
        ("20G, 5%", 5 * GIB, 20 * GIB),
        ("off", 0, 0),
    ],
)
def test_what_is_to_stay_free_is_the_least_of_what_is_said(
    text: str, of_100_gib: int, of_10_tib: int
) -> None:
    assert least_room(text).bytes_of(100 * GIB) == of_100_gib
    assert least_room(text).bytes_of(10 * 1024 * GIB) == of_10_tib


@pytest.mark.parametrize("text", ["", "5", "much", "5%,6%", "1G,2G", "100%", "5%,"])
def test_what_is_no_amount_of_room_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        least_room(text)
    assert refused.value.hint and "\n" not in refused.value.message


def test_room_without_a_unit_is_refused_with_its_likely_readings() -> None:
    for text, hint in (("5", "5%, 5G or 5M?"), ("5%,200", "200G or 200M?")):
        with pytest.raises(UsageError, match="has no unit") as refused:
            least_room(text)
        assert refused.value.hint == hint


@dataclass
class Loop:
    """A turn loop as far as the watch knows it."""

    state: State = field(default_factory=State)
    asked: int = 0

    def ask(self, proposal: Proposal, reply: Any) -> None:
        self.asked += 1
        for event in proposal(self.state).events:
            self.state.apply(event)


class Disk:
    def __init__(self) -> None:
        self.loop, self.free_bytes, self.now_s, self.reads = Loop(), 50 * GIB, 0.0, 0
        loop: Any = self.loop
        self.watch = DiskWatch(loop, ["/a"], self.read, lambda: self.now_s)
        self.watch.take(LeastRoom(mib=20 * 1024), LeastRoom(mib=2 * 1024))

    def read(self, path: str) -> Room:
        self.reads += 1
        return Room(1000 * GIB, self.free_bytes)

    @property
    def low(self) -> LowDisk | None:
        return self.loop.state.low_disk


def test_less_room_is_told_and_then_stops_starts_until_there_is_room_again() -> None:
    disk = Disk()
    disk.watch.look()
    assert disk.low is None and disk.loop.asked == 0
    disk.free_bytes = 19 * GIB
    disk.watch.look()
    assert disk.low == LowDisk("/a", 19 * 1024, 20 * 1024, stops=False)
    disk.free_bytes = 1 * GIB
    disk.watch.look()
    assert disk.low == LowDisk("/a", 1024, 2048, stops=True)
    disk.free_bytes = 30 * GIB
    disk.watch.look()
    assert disk.low is None


def test_turns_read_only_what_is_old_and_each_of_them_while_nothing_starts() -> None:
    disk = Disk()
    disk.watch.before_turn()
    for _ in range(1000):
        disk.watch.before_turn()
    assert disk.reads == 1
    disk.now_s = 6.0
    disk.watch.before_turn()
    assert disk.reads == 2
    disk.free_bytes = 0
    disk.now_s = 12.0
    disk.watch.before_turn()
    assert disk.low is not None and disk.low.stops
    disk.free_bytes = 50 * GIB
    disk.watch.before_turn()
    assert disk.low is None


def test_a_disk_that_can_not_be_asked_stops_nothing() -> None:
    loop: Any = Loop()

    def fails(path: str) -> Room:
        raise OSError("gone")

    watch = DiskWatch(loop, ["/a"], fails)
    watch.take(LeastRoom(percent=5), LeastRoom(percent=1))
    watch.look()
    assert loop.asked == 0


def test_of_two_disks_the_one_that_stops_starts_is_told() -> None:
    loop: Any = Loop()
    rooms = {"/db": Room(100 * GIB, GIB), "/logs": Room(100 * GIB, 4 * GIB)}
    watch = DiskWatch(loop, ["/logs", "/db"], rooms.__getitem__)
    watch.take(LeastRoom(percent=5), LeastRoom(percent=2))
    watch.look()
    assert loop.state.low_disk == LowDisk("/db", 1024, 2048, stops=True)


def test_a_disk_that_stops_starts_is_told_before_a_smaller_one_that_does_not() -> None:
    loop: Any = Loop()
    rooms = {"/db": Room(50 * GIB, 2 * GIB), "/logs": Room(1000 * GIB, 10 * GIB)}
    watch = DiskWatch(loop, ["/logs", "/db"], rooms.__getitem__)
    watch.take(LeastRoom(percent=5), LeastRoom(percent=2))
    watch.look()
    assert loop.state.low_disk == LowDisk("/logs", 10 * 1024, 20 * 1024, stops=True)
