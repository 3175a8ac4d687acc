"""A disk with little room left, for real: a small file system that a job's log fills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from small_disk import SmallDisk, disk
from stoker_home import StokerHome
from waiting import eventually

__all__ = ["disk"]


@pytest.fixture
def on_disk(disk: SmallDisk) -> Iterator[StokerHome]:
    stoker = StokerHome(disk.root)
    try:
        stoker.start(gpus="0-3")
        yield stoker
    finally:
        stoker.clean_up()


def test_a_log_that_takes_the_room_is_warned_of_and_then_stops_starts_until_there_is_room(
    on_disk: StokerHome, tmp_path: Path
) -> None:
    stoker = on_disk
    more, end = tmp_path / "more", tmp_path / "end"
    stoker.stoker("config", "set", "disk-warn", "15M")
    assert "disk-warn: 15 MiB" in stoker.stoker("status")
    stoker.stoker("config", "set", "disk-warn", "off")
    stoker.stoker("config", "set", "disk-stop", "4M")
    script = f"until [ -e {more} ]; do sleep 0.02; done; head -c 7M /dev/zero; "
    writer = stoker.submit("sh", "-c", script + f"until [ -e {end} ]; do sleep 0.02; done")
    stoker.until_state(writer, "running")
    assert stoker.until_final(stoker.submit("true"))[0]["state"] == "succeeded"
    more.touch()

    def held_back() -> bool:
        job = stoker.submit("true")
        return "disk-stop" in (stoker.job(job)["reason"] or "")

    eventually(held_back, "the disk is seen to be low", 30)
    held = stoker.submit("true")
    (told,) = stoker.call("why", select={"ids": [str(held)]})["jobs"]
    assert told["reason"]["kind"] == "DiskIsLow" and told["reason"]["least_mib"] == 4
    assert "stoker disk" in told["text"]
    assert "can't be started: the disk of" in stoker.stoker("status")
    assert stoker.job(writer)["state"] == "running"
    assert "nothing is started: the disk of" in stoker.log_text()
    end.touch()
    stoker.until_final(writer)
    assert stoker.job(held)["state"] == "waiting"
    stoker.stoker("rm", str(writer))
    assert stoker.until_final(held)[0]["state"] == "succeeded"
