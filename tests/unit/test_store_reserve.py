"""The room that is kept for hard times is really there, and is given up in parts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.core import events as ev
from stoker.store import reserve
from stoker.store.reserve import PART_BYTES, PARTS, Reserve
from stoker.store.sqlite import SqliteStore

NOW_MS = 1_700_000_000_000


def test_it_takes_up_room_and_gives_it_back_part_by_part(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    kept = Reserve(path)
    kept.fill()
    assert kept.is_whole
    os.sync()
    assert path.stat().st_blocks * 512 >= PARTS * PART_BYTES
    assert path.stat().st_mode & 0o777 == 0o600
    for left in reversed(range(PARTS)):
        assert kept.give_up_part()
        assert path.stat().st_size == left * PART_BYTES
        assert not kept.is_whole
    assert not kept.give_up_part()
    assert Reserve(path).give_up_part() is False
    kept.fill()
    assert kept.is_whole and Reserve(path).is_whole


def test_it_is_not_made_where_it_would_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "free_bytes", lambda _: PARTS * PART_BYTES + 1)
    kept = Reserve(tmp_path / "reserve")
    kept.fill()
    assert not kept.is_whole and not (tmp_path / "reserve").exists()


def test_one_that_somebody_has_removed_is_no_room(tmp_path: Path) -> None:
    kept = Reserve(tmp_path / "reserve")
    kept.fill()
    (tmp_path / "reserve").unlink()
    assert not kept.give_up_part()


def test_a_log_that_was_lengthened_has_the_same_commits_as_before(tmp_path: Path) -> None:
    path = tmp_path / "stoker.db"
    store = SqliteStore(path)
    store.reserve.fill()

    def add(number: int) -> None:
        state = store.load(NOW_MS)
        state.apply(ev.GpuAdded(NOW_MS, str(number), 1_000))
        store.commit(state, state.take_change())

    add(0)
    length = path.with_name("stoker.db-wal").stat().st_size
    assert store.make_room()
    assert path.with_name("stoker.db-wal").stat().st_size >= length + PART_BYTES // 2
    add(1)
    # As after a crash: nobody has closed the first one, and the log is read anew.
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("stoker.db", "stoker.db-wal"):
        (copy / name).write_bytes((tmp_path / name).read_bytes())
    found = SqliteStore(copy / "stoker.db")
    assert list(found.load(NOW_MS).gpus) == ["0", "1"]
    assert found.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found.close()
    store.close()
