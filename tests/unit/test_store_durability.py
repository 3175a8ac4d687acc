"""What the database file promises: a commit is on the disk, and what it refers to is there."""

from __future__ import annotations

from pathlib import Path

from stoker.store.sqlite import SqliteStore

FULL = 2


def test_every_commit_is_flushed_to_the_disk_before_it_returns(tmp_path: Path) -> None:
    for _ in range(2):  # A new file, and one that is there.
        store = SqliteStore(tmp_path / "stoker.db")
        ask = store.connection.execute
        assert ask("PRAGMA synchronous").fetchone() == (FULL,)
        assert ask("PRAGMA journal_mode").fetchone() == ("wal",)
        store.close()


def test_a_row_can_not_refer_to_what_is_not_there(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "stoker.db")
    assert store.connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert store.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    store.close()
