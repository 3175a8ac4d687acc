"""Batches of the priority scheduler's CSV keep their order, whatever is profiled before them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakegpu.build import Built
from gpu_box import Box
from stoker_home import StokerHome, lines_of

HEADER = "Directory,Executable,Filename,Epochs,Priority\n"
TRAIN = """\
echo "start $*" >> "$RECORD"
sleep 0.1
echo "end $*" >> "$RECORD"
"""
_PROFILE = "2"  # epochs of a short run


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StokerHome]:
    """A Stoker with so many GPUs that a driver shows, or none and four that are declared."""
    devices: int = request.param
    home: StokerHome
    if devices:
        built: Built = request.getfixturevalue("built")
        home = box = Box(tmp_path, built, devices)
        box.power_on()
    else:
        home = StokerHome(tmp_path)
        home.start(gpus="0-3")
    (home.work / "train.sh").write_text(TRAIN)
    home.env["RECORD"] = str(home.root / "record")
    try:
        yield home
    finally:
        home.clean_up()


def run(home: StokerHome, priorities: list[int], kinds: int, *words: str) -> None:
    """Work a file off; the kinds of its rows were never seen before."""
    record = home.root / "record"
    record.write_text("")
    new = len(home.jobs())
    rows = "".join(
        f".,/bin/sh,train.sh {new}.{n % kinds},{3 + n},{priority}\n"
        for n, priority in enumerate(priorities)
    )
    (home.work / "commands.csv").write_text(HEADER + rows)
    ran = home.cli("batch", "--csv", "commands.csv", *words)
    assert ran.code == 0, ran


def order(home: StokerHome) -> list[tuple[str, int]]:
    """Starts and ends of the rows, by their place in the file; without short runs."""
    told = []
    for line in lines_of(home.root / "record"):
        epochs = line.split("--epochs=")[1].split()[0]
        if epochs != _PROFILE:
            told.append((line.split()[0], int(epochs) - 3))
    return told


def assert_batches_hold(home: StokerHome, rows: int, size: int) -> None:
    ended = [0] * rows
    for what, row in order(home):
        batch = row // size
        if what == "end":
            ended[batch] += 1
        elif batch:
            assert ended[batch - 1] == size, f"--num {size}: row {row} overtook a batch"
    assert sum(ended) == rows


@pytest.mark.parametrize("machine", [0, 1, 2, 4, 8], indirect=True)
def test_a_batch_starts_when_the_one_before_it_has_ended(machine: StokerHome) -> None:
    # The first batch has the lowest priority: only batches keep it from being starved.
    for size in (1, 2, 3):
        run(machine, [9, 9, 1, 1, 5, 0], 3, "--num", str(size))
        assert_batches_hold(machine, 6, size)
    run(machine, [9, 9, 1, 1, 5, 0], 3, "--num", "2", "--profile-epochs", "0")
    assert_batches_hold(machine, 6, 2)


@pytest.mark.parametrize("machine", [1], indirect=True)
def test_within_a_batch_lower_priorities_go_first_behind_their_short_runs(
    machine: StokerHome,
) -> None:
    run(machine, [9, 7, 1, 3], 4, "--num", "2")
    assert [row for what, row in order(machine) if what == "start"] == [1, 0, 2, 3]


@pytest.mark.parametrize("machine", [1], indirect=True)
def test_a_short_run_has_the_id_of_the_row_that_it_profiles(machine: StokerHome) -> None:
    run(machine, [1, 1, 1, 1], 2, "--num", "4")
    rows: dict[str, list[str]] = {}  # the ids by the number of epochs, which tells rows apart
    for line in lines_of(machine.root / "record"):
        if line.startswith("start "):
            [(one, epochs)] = [
                (one, epochs)
                for one in re.findall(r"--id[ =](\d+)", line)
                for epochs in re.findall(r"--epochs[ =](\d+)", line)
            ]
            rows.setdefault(epochs, []).append(one)
    assert rows.keys() == {_PROFILE, "3", "4", "5", "6"}
    assert rows[_PROFILE] == rows["3"] + rows["4"], "those of the first row of each kind"


@pytest.mark.parametrize("machine", [1, 4], indirect=True)
def test_forty_rows_taken_twenty_at_a_time_are_profiled_and_keep_their_order(
    machine: StokerHome,
) -> None:
    run(machine, [9] * 20 + [1] * 20, 4, "--num", "20")
    assert_batches_hold(machine, 40, 20)


@pytest.mark.parametrize("machine", [0, 4], indirect=True)
def test_batches_of_more_than_five_hundred_keep_their_order(machine: StokerHome) -> None:
    (machine.work / "train.sh").write_text(TRAIN.replace("sleep 0.1", ""))
    run(machine, [9] * 520 + [1] * 20, 1, "--num", "520")
    assert_batches_hold(machine, 540, 520)
