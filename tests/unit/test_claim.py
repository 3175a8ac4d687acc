"""Whose a state directory is: told by a file in it, and never by two machines at once."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from stoker import machine
from stoker.api import claim
from stoker.api.claim import Holding, check, claim_from_another, read_claim
from stoker.api.paths import Home
from stoker.daemon.loop import TurnLoop
from stoker.daemon.tenure import Tenure
from stoker.errors import Failed
from stoker.executors import elsewhere
from stoker.executors.processes import stat_of
from stoker.machine import Place
from stoker.store.sqlite import SqliteStore

ALPHA = Place("aa", "alpha", "boot-1", "4026531836-1")
BETA = Place("bb", "beta", "boot-2", "4026531836-1")

On = Callable[[Place], None]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir(0o700)
    return Home(str(tmp_path / "home"))


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> On:
    """Be on that machine from now on."""
    return lambda place: monkeypatch.setattr(claim, "here", lambda: place)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The home is on a file system that machines share."""
    monkeypatch.setattr(claim, "kind_of", lambda path: "nfs4")


def grows_old(home: Home, seconds: float = 3600) -> None:
    moment = time.time() - seconds
    os.utime(home.claim, (moment, moment))


def test_a_second_machine_is_refused_with_name_user_and_since_when_and_without_waiting(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(ALPHA)
    held = Holding(home)
    on(BETA)
    monkeypatch.delattr(time, "sleep")
    for ask in (check, Holding, claim_from_another):
        with pytest.raises(Failed) as refused:
            ask(home)
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(held.claim.since_ms / 1000))
        said = refused.value.message
        assert "in use by alpha" in said and f"user {held.claim.user}" in said and since in said
        assert "stoker daemon stop" in refused.value.hint
        [seconds] = re.findall(r"run `stoker daemon claim` here in (\d+) s;", refused.value.hint)
        assert 0 < int(seconds) <= claim.SILENT_AFTER_S + 1
    assert read_claim(home) == held.claim


def test_one_that_is_silent_can_be_claimed_but_is_never_taken_by_itself(home: Home, on: On) -> None:
    on(ALPHA)
    first = Holding(home)
    grows_old(home, 3590)
    on(BETA)
    with pytest.raises(Failed) as refused:
        Holding(home)
    assert "stoker daemon claim" in refused.value.hint and "59m" in refused.value.hint
    was = claim_from_another(home)
    assert was == first.claim
    second = Holding(home)
    assert second.claim.over_another, "what ran on the other is to be given up"
    second.has_given_up_others()
    now = read_claim(home)
    assert now is not None and now.place == BETA and not now.over_another
    on(ALPHA)
    assert not first.renew(), "it sees that it has lost the state"
    with pytest.raises(Failed, match="in use by beta"):
        check(home)


def test_of_two_machines_that_see_no_claim_one_gets_it(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(ALPHA)
    really = claim.check
    looks = iter([None])
    on(BETA)
    beta = Holding(home)
    on(ALPHA)
    # It looked just before the other wrote.
    monkeypatch.setattr(claim, "check", lambda home: next(looks, really) and really(home))
    with pytest.raises(Failed, match="in use by beta"):
        Holding(home)
    assert read_claim(home) == beta.claim
    assert os.listdir(home.root) == ["claim"]


def test_a_file_system_without_hard_links_will_do(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    on(ALPHA)
    first = Holding(home)
    assert first.claim == read_claim(home)
    assert os.stat(home.claim).st_mode & 0o777 == 0o600
    grows_old(home)
    on(BETA)
    claim_from_another(home)
    assert not first.renew() and Holding(home).claim == read_claim(home)
    assert os.listdir(home.root) == ["claim"]


def test_of_two_machines_one_gets_it_also_without_hard_links(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        on(BETA)
        monkeypatch.setattr(os, "link", refused)
        beta.append(Holding(home))  # just now
        on(ALPHA)
        refused()

    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    beta: list[Holding] = []
    on(ALPHA)
    monkeypatch.setattr(os, "link", none)
    with pytest.raises(Failed, match="in use by beta"):
        Holding(home)
    assert [held.claim for held in beta] == [read_claim(home)] and beta[0].renew()


# ---------------------------------------------------------------------- at the same moment


def steps_in(monkeypatch: pytest.MonkeyPatch, name: str, before: bool) -> list[Callable[[], None]]:
    """What is put into the list happens once, right before or after the next call of that name."""
    really: Callable[..., None] = getattr(os, name)
    pending: list[Callable[[], None]] = []

    def call(*words: object, **options: object) -> None:
        step = pending.pop() if pending else lambda: None
        if before:
            step()
        really(*words, **options)
        if not before:
            step()

    monkeypatch.setattr(os, name, call)
    return pending


def why_refused(ask: Callable[[Home], object], home: Home) -> str:
    """Empty if it was not."""
    try:
        ask(home)
    except Failed as refused:
        return refused.message
    return ""


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", ["rename", "link"])
def test_a_daemon_that_wakes_up_while_its_claim_is_taken_loses_it_or_keeps_it_but_never_both(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch, name: str, before: bool
) -> None:
    on(ALPHA)
    first = Holding(home)
    grows_old(home)
    kept: list[bool] = []

    def wakes_up() -> None:
        on(ALPHA)
        kept.append(first.renew())
        on(BETA)

    on(BETA)
    steps_in(monkeypatch, name, before).append(wakes_up)
    refused = why_refused(claim_from_another, home)
    taken = not refused
    assert taken or "in use by alpha" in refused
    assert kept == [not taken]
    assert first.renew() == (not taken)
    assert os.listdir(home.root) == ["claim"]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_claim_that_is_taken_while_its_owner_renews_it_is_not_taken_for_the_owners(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    on(ALPHA)
    first = Holding(home)
    grows_old(home)
    taken: list[bool] = []

    def takes() -> None:
        on(BETA)
        taken.append(not why_refused(claim_from_another, home))
        on(ALPHA)

    steps_in(monkeypatch, "utime", before).append(takes)
    kept = first.renew()
    assert taken == [not kept] == [before]


@pytest.mark.parametrize("name", ["utime", "fsync", "rename"])
def test_a_daemon_that_starts_anew_while_its_claim_is_taken_gets_it_or_is_refused(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    on(ALPHA)
    Holding(home)
    grows_old(home)
    taken: list[bool] = []

    def takes() -> None:
        on(BETA)
        taken.append(not why_refused(claim_from_another, home))
        on(ALPHA)

    steps_in(monkeypatch, name, True).append(takes)
    refused = why_refused(Holding, home)
    now = read_claim(home)
    assert now is not None and now.place == (BETA if refused else ALPHA)
    assert taken == [bool(refused)] and ("in use by beta" in refused or not refused)


def test_of_two_machines_that_claim_one_that_is_silent_one_gets_it(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(ALPHA)
    Holding(home)
    grows_old(home)
    gamma = Place("cc", "gamma", "boot-3", "4026531836-1")
    on(gamma)

    def is_quicker() -> None:
        on(BETA)
        claim_from_another(home)
        on(gamma)

    steps_in(monkeypatch, "rename", True).append(is_quicker)
    with pytest.raises(Failed, match="in use by beta"):
        claim_from_another(home)
    now = read_claim(home)
    assert now is not None and now.place == BETA
    assert os.listdir(home.root) == ["claim"]


def test_a_claim_that_can_not_be_read_is_somebody_elses(home: Home, on: On) -> None:
    on(ALPHA)
    for text in ("", "{", "[]", '{"place": {}}', "\x00" * 100):
        Path(home.claim).write_text(text)
        with pytest.raises(Failed, match="in use by an unknown machine"):
            Holding(home)
    grows_old(home)
    claim_from_another(home)
    assert Holding(home).claim.place == ALPHA


# ---------------------------------------------------------------------- which machine it is


@pytest.mark.parametrize(
    ("other", "on_shared", "on_local"),
    [
        (ALPHA._replace(boot="boot-9"), True, True),  # restarted
        (ALPHA._replace(namespace="7-7", host="container", machine=""), True, True),  # same boot
        (ALPHA._replace(boot="boot-9", host="renamed"), False, True),  # or a copy of one image
        (ALPHA._replace(boot="boot-9", machine="cc"), False, False),
        (ALPHA._replace(boot="boot-9", machine="", host="alpha"), False, False),
        (BETA, False, False),
    ],
)
def test_a_machine_is_known_by_its_boot_or_by_its_id_and_name(
    other: Place, on_shared: bool, on_local: bool
) -> None:
    assert ALPHA.is_machine_of(other, shared=True) == on_shared
    assert ALPHA.is_machine_of(other, shared=False) == on_local
    assert other.is_machine_of(ALPHA, shared=True) == on_shared


def test_containers_without_a_machine_id_are_known_by_their_names() -> None:
    one, other = Place("", "web", "boot-1", "5-5"), Place("", "web", "boot-2", "6-6")
    assert one.is_machine_of(other, shared=True)
    assert not one.is_machine_of(other._replace(host="db"), shared=False)


def test_pids_mean_something_only_in_their_namespace_and_boot() -> None:
    assert ALPHA.sees(ALPHA._replace(host="renamed"))
    assert not ALPHA.sees(ALPHA._replace(namespace="4026531836-2"))
    assert not ALPHA.sees(ALPHA._replace(boot="boot-2"))


@pytest.mark.usefixtures("shared")
def test_a_copy_of_this_machine_that_is_at_work_is_not_taken_for_our_past(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(ALPHA._replace(boot="boot-9"))
    other = Holding(home)
    on(ALPHA)
    looks = []

    def meanwhile(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            other.renew()

    monkeypatch.setattr(time, "sleep", meanwhile)
    with pytest.raises(Failed, match="in use by alpha"):
        Holding(home)


@pytest.mark.usefixtures("shared")
def test_what_this_machine_had_before_its_restart_is_its_own_once_it_is_silent(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(ALPHA._replace(boot="boot-9"))
    Holding(home)
    on(ALPHA)
    monkeypatch.setattr(time, "sleep", lambda seconds: grows_old(home))
    assert Holding(home).claim.place == ALPHA


# ---------------------------------------------------------------------- while the daemon runs


def test_a_claim_is_touched_and_put_back_and_given_up_only_by_its_owner(home: Home, on: On) -> None:
    on(ALPHA)
    held = Holding(home)
    grows_old(home)
    assert held.renew() and claim.silent_for_s(home) < 60
    os.unlink(home.claim)
    assert held.renew() and read_claim(home) == held.claim, "somebody had removed it"
    os.unlink(home.claim)
    on(BETA)
    second = Holding(home)
    on(ALPHA)
    assert not held.renew()
    held.release()
    assert read_claim(home) == second.claim
    second.release()
    assert read_claim(home) is None


def test_silence_is_counted_by_the_clock_of_the_file_system(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(ALPHA)
    Holding(home)
    monkeypatch.setattr(time, "time", lambda: 4e9)
    assert claim.silent_for_s(home) < 60
    assert os.listdir(home.root) == ["claim"]


def test_a_daemon_that_has_slept_looks_whose_the_state_is_before_its_next_turn(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(ALPHA)
    tenure = Tenure(home)
    turn_loop = SimpleNamespace(before_turn=[])
    loop = asyncio.new_event_loop()
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    tenure.keep(loop, cast(TurnLoop, turn_loop))
    loop.close()
    [look] = turn_loop.before_turn
    grows_old(home)
    on(BETA)
    claim_from_another(home)
    look()
    assert ended == [], "the file is not read for each turn"
    asleep = claim._steady_s() + claim.SILENT_AFTER_S
    monkeypatch.setattr(claim, "_steady_s", lambda: asleep)
    look()
    assert ended == [1]


def test_a_daemon_whose_state_was_claimed_while_it_loaded_does_not_write_to_it(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(ALPHA)
    tenure = Tenure(home)
    grows_old(home)
    on(BETA)
    claim_from_another(home)
    on(ALPHA)
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit):
        tenure.begin(tenure.elsewhere({}), [], cast(SqliteStore, None))


def test_one_that_is_refused_for_jobs_of_another_machine_leaves_no_claim_of_its_own(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else that machine, where the jobs are, could not start its daemon either."""
    kept = json.dumps({"place": ALPHA._asdict(), "given_up": []})
    on(BETA)
    monkeypatch.setattr(elsewhere, "here", lambda: BETA)
    tenure = Tenure(home)
    there = tenure.elsewhere({elsewhere.KEPT_AS: kept})
    there.why_gone((1, 1), False)
    with pytest.raises(Failed, match=r"another machine run with this state \(alpha\)"):
        tenure.begin(there, [(1, 1)], cast(SqliteStore, None))
    assert read_claim(home) is None
    on(ALPHA)
    assert Holding(home).claim.place == ALPHA


@pytest.mark.parametrize("how", ["first", "again", "over another"])
def test_a_claim_is_on_the_disk_before_it_has_its_name(
    home: Home, on: On, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """After a power cut an empty one would be somebody else's, for good."""
    on(ALPHA)
    if how != "first":
        Holding(home)
    if how == "over another":
        grows_old(home)
        on(BETA)
    flushed: dict[int, int] = {}  # how much of each file, by its inode
    fsync, link, rename = os.fsync, os.link, os.rename

    def flush(fd: int) -> None:
        fsync(fd)
        found = os.fstat(fd)
        flushed[found.st_ino] = found.st_size

    def named(by: Callable[[str, str], None]) -> Callable[[str, str], None]:
        def name(old: str, new: str) -> None:
            found = os.stat(old)
            assert new != home.claim or flushed.get(found.st_ino) == found.st_size > 10
            by(old, new)

        return name

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "link", named(link))
    monkeypatch.setattr(os, "rename", named(rename))
    if how == "over another":
        claim_from_another(home)
    else:
        Holding(home)
    assert os.stat(home.claim).st_ino in flushed


def test_a_state_whose_daemon_has_the_lock_is_not_claimed(home: Home, on: On) -> None:
    on(ALPHA)
    Holding(home)
    grows_old(home)
    on(BETA)
    with open(home.lock, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Failed, match="a daemon of alpha"):
            claim_from_another(home)
    assert claim_from_another(home) is not None


def test_a_machine_id_that_is_none_yet_names_no_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none_yet, given = tmp_path / "none", tmp_path / "given"
    none_yet.write_text("uninitialized\n")
    given.write_text("0123456789abcdef0123456789abcdef\n")
    monkeypatch.setattr(machine, "_MACHINE_IDS", (str(none_yet),))
    assert machine._machine() == ""
    monkeypatch.setattr(machine, "_MACHINE_IDS", (str(none_yet), str(given)))
    assert machine._machine() not in ("", given.read_text().strip())


def test_a_namespace_is_named_with_its_start_since_its_number_is_given_again() -> None:
    first = stat_of(1)
    if first is None:
        pytest.skip("the first process is hidden")
    number = os.stat("/proc/self/ns/pid").st_ino
    assert machine.pid_namespace() == f"{number}-{first.id.start_time}"
