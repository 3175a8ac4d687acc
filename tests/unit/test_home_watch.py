"""What a daemon can tell of its home by looking at it."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.api.paths import Home
from stoker.daemon.home_watch import HomeWatch
from stoker.daemon.main import take_lock


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "stoker.db").touch()
    (tmp_path / "stoker.sock").touch()
    return Home(str(tmp_path))


@pytest.fixture
def watch(home: Home) -> Iterator[HomeWatch]:
    lock = take_lock(home.lock)
    watch = HomeWatch(home, lock)
    watch.socket_made()
    yield watch
    watch.close()
    os.close(lock)


def test_all_is_well_as_long_as_nothing_is_deleted(watch: HomeWatch) -> None:
    assert watch.has_lock() and watch.has_database() and watch.has_socket()
    assert not select.select([watch], [], [], 0)[0]


@pytest.mark.parametrize("name", ["lock", "database", "socket"])
@pytest.mark.parametrize("made_anew", [False, True])
def test_what_was_deleted_or_replaced_is_noticed_and_told_by_the_kernel(
    watch: HomeWatch, home: Home, name: str, made_anew: bool
) -> None:
    path = Path(getattr(home, name))
    kept = path.rename(path.parent.parent / f"{path.parent.name}.{name}")  # Its inode stays taken.
    if made_anew:
        path.touch()
    found = {"lock": watch.has_lock(), "database": watch.has_database()}
    found["socket"] = watch.has_socket()
    assert found == {one: one != name for one in found}
    assert select.select([watch], [], [], 10)[0]
    watch.heard()
    assert not select.select([watch], [], [], 0)[0]
    kept.unlink()


def test_where_the_kernel_can_not_watch_nothing_stays_open(home: Home, tmp_path: Path) -> None:
    with open(home.database, "rb") as lock:
        before = os.listdir("/proc/self/fd")
        gone = HomeWatch(Home(str(tmp_path / "gone")), lock.fileno())
        assert gone.fileno() == -1
        gone.close()
        assert os.listdir("/proc/self/fd") == before


def test_an_error_is_no_reason_to_give_way(watch: HomeWatch, home: Home) -> None:
    home.lock = home.database = home.socket = "x" * 5_000  # Too long: stat fails.
    assert watch.has_lock() and watch.has_database() and watch.has_socket()
