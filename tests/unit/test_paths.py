"""Where state lives, and who may get at it."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

import platformdirs
import pytest

from stoker.api.launch import start_daemon
from stoker.api.paths import MAX_SOCKET_PATH_BYTES, Home, make_private, socket_address
from stoker.errors import Failed, Unavailable, Unreachable, UsageError


@pytest.mark.parametrize("state_home", ["/elsewhere/state", "", "   ", None])
def test_without_stoker_home_state_is_where_platformdirs_says(
    monkeypatch: pytest.MonkeyPatch, state_home: str | None
) -> None:
    monkeypatch.delenv("STOKER_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    if state_home is not None:
        monkeypatch.setenv("XDG_STATE_HOME", state_home)
    assert Home.from_environment().root == platformdirs.user_state_dir("stoker")


def test_everything_is_under_stoker_home_if_that_is_set() -> None:
    home = Home.from_environment({"STOKER_HOME": "/x/y", "XDG_STATE_HOME": "/z"})
    places = [home.database, home.attempts, home.log, home.lock, home.socket]
    assert sorted(places) == [
        "/x/y/attempts",
        "/x/y/daemon.lock",
        "/x/y/daemon.log",
        "/x/y/stoker.db",
        "/x/y/stoker.sock",
    ]


def test_an_empty_stoker_home_counts_as_none_and_a_relative_one_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Home.from_environment({"STOKER_HOME": "h"}).root == f"{tmp_path}/h"
    unset = Home.from_environment({"STOKER_HOME": "", "XDG_STATE_HOME": "/s"})
    assert unset.root == "/s/stoker"


def test_a_relative_xdg_directory_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    home = Home.from_environment({"XDG_STATE_HOME": "relative"})
    assert home.root == "/home/ada/.local/state/stoker"


def test_a_stoker_home_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(UsageError):
        Home.from_environment({"STOKER_HOME": "/x/\udcff"})


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_directory_is_private_from_its_first_moment_whatever_the_umask(
    tmp_path: Path, umask: int
) -> None:
    old = os.umask(umask)
    try:
        make_private(str(tmp_path / "a" / "b" / "home"))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a" / "b" / "home").stat().st_mode) == 0o700


def test_a_directory_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private(str(tmp_path))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_a_directory_that_others_may_write_is_refused_with_how_to_mend_it(
    tmp_path: Path, mode: int
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(mode)
    with pytest.raises(Failed) as refused:
        make_private(str(home))
    assert "chmod go-w" in refused.value.hint


def test_a_directory_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(Failed, match="another user"):
        make_private(str(tmp_path))


@pytest.mark.parametrize("below", ["", "/below"])
def test_a_file_in_the_way_is_refused(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Failed) as refused:
        make_private(f"{tmp_path}/file{below}")
    assert refused.value.hint


@pytest.mark.parametrize("length", [40, MAX_SOCKET_PATH_BYTES, MAX_SOCKET_PATH_BYTES + 1, 250])
def test_a_socket_can_be_bound_and_reached_however_long_its_path(length: int) -> None:
    # The test's own directory may be too long already for the shorter of these.
    root = Path(f"/tmp/stoker-{os.getpid()}-{length}")
    directory = root / ("d" * max(1, length - len(str(root)) - len("//s")))
    directory.mkdir(parents=True)
    path = directory / "s"
    try:
        assert len(str(path)) >= length or length == 40
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
            for use in (listener.bind, client.connect):
                address, fd = socket_address(str(path))
                use(address)
                assert (fd >= 0) == (len(str(path)) > MAX_SOCKET_PATH_BYTES)
                if fd >= 0:
                    os.close(fd)
                listener.listen()
    finally:
        path.unlink()
        directory.rmdir()
        root.rmdir()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.ESTALE])
def test_an_error_that_may_pass_is_no_refusal_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "mkdir", fails)
    with pytest.raises(Unavailable, match=os.strerror(number)):
        make_private(str(tmp_path / "home"))
    # Who waits for the daemon to come back tries again.
    with pytest.raises(Unreachable, match=os.strerror(number)):
        start_daemon(Home(str(tmp_path / "home")))
