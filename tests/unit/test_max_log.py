"""A log with a bound (--max-log): head and tail are kept, and readers skip what was left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.executors import log_cap
from stoker.executors.log_cap import CantPunch, cut
from stoker.holes import hole_in
from stoker.text.logfile import LogFile
from stoker.text.loglines import start_of_last_lines
from stoker.web import logs

MIB = 1024 * 1024


def line(number: int) -> bytes:
    return b"line %08d\n" % number


COUNT = 1_000_000  # lines of 14 bytes


@pytest.fixture
def capped(tmp_path: Path) -> Path:
    """A log of 13 MiB of which 4 are kept."""
    path = tmp_path / "log"
    path.write_bytes(b"".join(map(line, range(COUNT))))
    with path.open("rb") as file:
        os.fsync(file.fileno())
    try:
        assert cut(str(path), 4)
    except CantPunch as error:
        pytest.skip(f"this file system can't punch holes: {error}")
    return path


def read_all(path: Path) -> bytes:
    log = LogFile(str(path))
    try:
        return b"".join(log.new_pieces())
    finally:
        log.close()


def test_head_and_tail_are_kept_and_one_line_says_how_much_was_left_out(capped: Path) -> None:
    size = 14 * COUNT
    assert capped.stat().st_size == size, "who appends notices nothing"
    assert capped.stat().st_blocks * 512 <= 3.2 * MIB
    shown = read_all(capped)
    assert b"\0" not in shown and len(shown) <= 3.2 * MIB
    assert shown.startswith(line(0) + line(1)) and shown.endswith(line(COUNT - 1))
    (notice,) = [text for text in shown.splitlines() if b"stoker:" in text]
    assert notice.startswith(b"[stoker: 10.") and b"left out here: --max-log 4M]" in notice


def test_a_log_that_goes_on_growing_is_cut_again_with_one_notice(capped: Path) -> None:
    with capped.open("ab") as file:
        for number in range(COUNT, 2 * COUNT):
            file.write(line(number))
        file.flush()
        os.fsync(file.fileno())
    assert cut(str(capped), 4)
    shown = read_all(capped)
    assert shown.count(b"left out") == 1 and b"[stoker: 23." in shown
    assert shown.startswith(line(0)) and shown.endswith(line(2 * COUNT - 1))


def test_a_log_within_its_bound_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * MIB)
    assert not cut(str(path), 4)
    assert path.read_bytes() == b"x" * MIB


def test_a_disk_that_can_not_punch_holes_leaves_the_log_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (6 * MIB))

    def refused(fd: int, start: int, length: int) -> None:
        raise CantPunch("Operation not supported")

    monkeypatch.setattr(log_cap, "_punch", refused)
    with pytest.raises(CantPunch):
        cut(str(path), 4)
    assert path.read_bytes() == b"x" * (6 * MIB)


def test_the_last_lines_are_found_across_the_hole(capped: Path) -> None:
    with capped.open("rb") as file:
        fd, size = file.fileno(), capped.stat().st_size
        hole = hole_in(fd, size)
        assert hole is not None
        tail_lines = capped.read_bytes()[hole[1] :].count(b"\n")
        assert start_of_last_lines(fd, size, 3) == size - 3 * 14
        start = start_of_last_lines(fd, size, tail_lines + 3)
        assert start < hole[0], "it goes on before the hole"
        assert b"left out" in os.pread(fd, hole[0] - start, start)


def test_who_follows_and_is_too_slow_is_told_what_was_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(map(line, range(200_000))))
    log = LogFile(str(path))
    first = b"".join(log.new_pieces())
    with path.open("ab") as file:
        file.writelines(map(line, range(200_000, COUNT)))
        os.fsync(file.fileno())
    try:
        assert cut(str(path), 4)
    except CantPunch as error:
        pytest.skip(str(error))
    rest = b"".join(log.new_pieces())
    log.close()
    assert first.endswith(line(199_999))
    assert rest.startswith(b"\n[stoker: ") and rest.endswith(line(COUNT - 1)) and b"\0" not in rest


def test_the_page_shows_both_sides_of_the_hole_and_nothing_of_it(capped: Path) -> None:
    path, size = str(capped), capped.stat().st_size
    with capped.open("rb") as file:
        hole = hole_in(file.fileno(), size)
    assert hole is not None
    end = logs.before(path, None, 100_000)
    assert end["lines"][-1]["text"] == f"line {COUNT - 1:08d}"
    across = logs.after(path, hole[0] - 14 * 20, 200_000)
    texts = [one["text"] for one in across["lines"]]
    assert not any("\0" in text for text in texts)
    assert sum("left out" in text for text in texts) == 1 and len(texts) > 1000
    upwards = logs.before(path, hole[1], 100_000)
    assert "left out" in upwards["lines"][-1]["text"]
    assert logs.before(path, hole[1] + 50_000, 100_000)["start"] == hole[1]
    amid = logs.around(path, (hole[0] + hole[1]) // 2, 50_000)
    assert amid["lines"] and not any("\0" in one["text"] for one in amid["lines"])
    found = logs.search(path, f"line {COUNT - 5:08d}", 0)
    assert [match["at"] for match in found["matches"]] == [size - 5 * 14]
