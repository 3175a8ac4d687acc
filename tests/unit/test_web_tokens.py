"""Grants of the page: who let whom in, how many and for how long, and that they are on the disk."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from stoker.api import tokens
from stoker.api.paths import Home
from stoker.api.tokens import BROWSER_LASTS_MS, KEY_LASTS_MS, MOST_BROWSERS, Access


class Clock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(tmp_path: Path, clock: Clock) -> Access:
    return Access(Home(str(tmp_path)), clock)


def let_in(access: Access, secret: str | None = None) -> str:
    """A browser's cookie."""
    entered = access.enter(secret or access.new_key(), "a browser")
    assert entered is not None
    return entered.cookie


def token(access: Access, name: str, lasts_ms: int | None = None) -> str:
    return access.new_token(name, read_only=False, lasts_ms=lasts_ms)[0]


def test_revoking_a_token_ends_the_browsers_that_it_let_in_and_no_others(access: Access) -> None:
    one, two = token(access, "one"), token(access, "two")
    of_one, also_of_one, of_two = let_in(access, one), let_in(access, one), let_in(access, two)
    by_key = let_in(access)
    gone = access.revoke(["one"])
    assert sorted(grant.kind for grant in gone) == ["browser", "browser", "token"]
    assert [access.browser(c) is not None for c in (of_one, also_of_one, of_two, by_key)] == [
        False, False, True, True,
    ]  # fmt: skip
    assert access.token(two) is not None


def test_revoking_one_browser_ends_no_other(access: Access) -> None:
    secret = token(access, "one")
    first, second = let_in(access, secret), let_in(access, secret)
    grant = access.browser(first)
    assert grant is not None
    assert access.revoke([grant.id]) == [grant]
    assert access.browser(first) is None and access.browser(second) is not None
    assert access.token(secret) is not None


def test_a_token_that_is_revoked_while_it_lets_a_browser_in_lets_none_in(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = token(access, "one")
    other = Access(access.home, access.now_ms)
    real = access._find

    def found_and_then_revoked(kind: Any, wanted: str) -> Any:
        found = real(kind, wanted)
        if found is not None and kind == "token":
            other.revoke(["one"])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(
            Access, "_find", lambda self, kind, wanted: found_and_then_revoked(kind, wanted)
        )
        assert access.enter(secret, "late") is None
    assert access.grants() == []


def test_a_key_that_another_browser_uses_in_the_same_moment_lets_one_in(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = access.new_key()
    other = Access(access.home, access.now_ms)
    changing = Access._changing

    def after_the_other(self: Access) -> Any:
        if self is access:
            assert other.enter(key, "quicker") is not None
        return changing(self)

    with monkeypatch.context() as patch:
        patch.setattr(Access, "_changing", after_the_other)
        assert access.enter(key, "late") is None
    assert [grant.name for grant in access.grants()] == ["quicker"]


def test_browsers_of_files_that_do_not_say_who_let_them_in_end_with_any_token(
    access: Access,
) -> None:
    secret = token(access, "one")
    cookie = let_in(access, secret)
    path = Path(access.path)
    grant = access.browser(cookie)
    assert grant is not None
    old = path.read_text(encoding="utf-8").replace(f', "let_in_by": "{grant.let_in_by}"', "")
    path.write_text(old, encoding="utf-8")
    kept = Access(access.home, access.now_ms)
    assert kept.browser(cookie) is not None
    kept.revoke(["one"])
    assert kept.browser(cookie) is None


def test_a_browser_ends_with_the_token_that_let_it_in(access: Access, clock: Clock) -> None:
    cookie = let_in(access, token(access, "brief", lasts_ms=60_000))
    clock.ms += 59_999
    assert access.browser(cookie) is not None
    clock.ms += 1
    assert access.browser(cookie) is None


@pytest.mark.parametrize("lasts_ms", [None, 10 * BROWSER_LASTS_MS])
def test_a_browser_ends_after_its_time(access: Access, clock: Clock, lasts_ms: int | None) -> None:
    cookie, by_key = let_in(access, token(access, "long", lasts_ms)), let_in(access)
    clock.ms += BROWSER_LASTS_MS - 1
    assert access.browser(cookie) is not None and access.browser(by_key) is not None
    clock.ms += 1
    assert access.browser(cookie) is None and access.browser(by_key) is None
    token(access, "next")
    assert {grant.kind for grant in access._read()} == {"token"}, "and is forgotten"


def test_there_are_so_many_browsers_and_the_oldest_makes_room(access: Access, clock: Clock) -> None:
    cookies = []
    for _ in range(MOST_BROWSERS + 3):
        clock.ms += 1
        cookies.append(let_in(access))
    known = [access.browser(cookie) is not None for cookie in cookies]
    assert known == [False] * 3 + [True] * MOST_BROWSERS


def test_one_token_cant_push_out_the_browsers_of_others(access: Access) -> None:
    owner = let_in(access)
    secret = token(access, "reads")
    cookies = [let_in(access, secret) for _ in range(2 * MOST_BROWSERS)]
    assert access.browser(owner) is not None
    alive = [access.browser(cookie) is not None for cookie in cookies]
    most = tokens.MOST_BROWSERS_OF_A_TOKEN
    assert alive == [False] * (2 * MOST_BROWSERS - most) + [True] * most


def test_a_key_is_good_once_and_for_its_time(access: Access, clock: Clock) -> None:
    key = access.new_key()
    let_in(access, key)
    assert access.enter(key, "again") is None
    late = access.new_key()
    clock.ms += KEY_LASTS_MS
    assert access.enter(late, "late") is None


def test_a_wrong_secret_writes_nothing(access: Access) -> None:
    secret = token(access, "one")
    before = os.stat(access.path)
    for wrong in ("x", secret + "x", "", secret.removeprefix("stoker_")):
        assert access.enter(wrong, "a stranger") is None
    after = os.stat(access.path)
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("change", ["create", "enter", "leave", "revoke", "revoke_all", "key"])
def test_a_change_of_grants_is_on_the_disk_before_anybody_is_told(
    access: Access, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """What a power cut can't show is shown by the calls: contents, new name, directory."""
    secret = token(access, "one")
    cookie = let_in(access, secret)
    grant = access.browser(cookie)
    assert grant is not None
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(fd: int) -> None:
        fsync(fd)
        target = os.readlink(f"/proc/self/fd/{fd}")
        kind = "directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "contents"
        assert target in (access.home.root, access.path + ".new")
        if kind == "contents":
            assert os.fstat(fd).st_size > 10, "all of it was written before"
        done.append(kind)

    def recorded_replace(source: str, target: str) -> None:
        assert (source, target) == (access.path + ".new", access.path)
        replace(source, target)
        done.append("name")

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    match change:
        case "create":
            token(access, "two")
        case "key":
            access.new_key()
        case "enter":
            let_in(access, secret)
        case "leave":
            access.leave(grant)
        case "revoke":
            access.revoke(["one"])
        case _:
            access.revoke_all()
    assert done == ["contents", "name", "directory"]


def test_a_file_of_grants_that_was_replaced_in_the_same_moment_is_read_again(
    access: Access,
) -> None:
    secret = token(access, "one")
    assert access.token(secret) is not None
    moment = os.stat(access.path)
    Access(access.home, access.now_ms).revoke(["one"])
    os.utime(access.path, ns=(moment.st_atime_ns, moment.st_mtime_ns))
    assert access.token(secret) is None


def test_nothing_is_written_of_a_token_that_an_older_page_could_not_read(access: Access) -> None:
    token(access, "one")
    [fields] = json.loads(Path(access.path).read_text())["grants"]
    assert "let_in_by" not in fields
