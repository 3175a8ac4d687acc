"""A pid alone is never trusted: whoever has it now may be another than the one that was meant."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.test_keeper import SPARE, Kept
from stoker.executors.adoption import Past, keeper_has_lock
from stoker.executors.attempt_dir import read_exit
from stoker.executors.keeper import as_word, keeper_of_this_process, ledger_path
from stoker.executors.ledger import LOCK_SUFFIX, LedgerWriter
from stoker.executors.processes import (
    Impossible,
    ProcessId,
    identify_child,
    is_alive,
    send,
    stat_of,
    this_process,
    ticks_since_boot,
)
from stoker.machine import here
from waiting import eventually


@pytest.fixture
def living() -> Iterator[ProcessId]:
    """A process that runs."""
    child = subprocess.Popen(["sleep", "600"])
    stat = stat_of(child.pid)
    assert stat is not None
    yield stat.id
    child.kill()
    child.wait()


def earlier(process: ProcessId) -> ProcessId:
    """One that had the same pid before."""
    return ProcessId(process.pid, process.start_time - 1)


def test_a_process_that_has_the_pid_of_another_is_not_that_one(living: ProcessId) -> None:
    assert is_alive(living) and not is_alive(earlier(living))


def test_no_signal_goes_to_a_process_that_has_the_pid_of_another(living: ProcessId) -> None:
    assert not send(earlier(living), signal.SIGKILL)
    assert send(living, 0) and is_alive(living)


def test_a_child_is_known_by_its_own_start_time_however_late_it_is_looked_at(
    living: ProcessId,
) -> None:
    eventually(lambda: ticks_since_boot() > living.start_time, "the clock has ticked")
    assert identify_child(living.pid, living.start_time - 3) == living


def test_a_child_that_is_gone_before_it_was_reaped_is_not_guessed_at() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(Impossible):
        identify_child(child.pid, ticks_before=0)


def test_the_keeper_writes_no_exit_for_a_job_whose_pid_another_child_has(tmp_path: Path) -> None:
    script = """
intend(1)
pid = spawn(1, 'exit 7')
process = stat_of(pid).id
ledger.record((1, 1), ProcessId(pid, process.start_time - 1))
die()
"""
    kept = Kept(tmp_path, "from stoker.executors.processes import ProcessId\n" + script)
    kept.ledger()
    kept.until_gone()
    assert read_exit(str(tmp_path / "attempts" / "0000" / "1.1")) is None


def test_the_keeper_takes_no_child_for_a_spare_whose_pid_it_has(tmp_path: Path) -> None:
    script = """
from stoker.executors.processes import ProcessId
pid = spawn(2, 'exit 7')
process = stat_of(pid).id
ledger.intend((2, 1), None, ProcessId(pid, process.start_time - 1))
die()
"""
    kept = Kept(tmp_path, SPARE + script)
    entries = kept.ledger()
    assert entries.intent is None and (2, 1) not in entries.pids
    kept.until_gone()


# ---------------------------------------------------------------------- who the keeper is


def remains(root: Path, keeper: ProcessId | None) -> LedgerWriter:
    (root / "attempts").mkdir()
    (root / "ledgers").mkdir()
    return LedgerWriter(root / "ledgers" / "earlier.ledger", keeper)


@pytest.mark.parametrize("reused", [True, False])
def test_an_open_intent_is_not_waited_for_if_its_keeper_is_gone_or_never_was(
    tmp_path: Path, living: ProcessId, reused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = remains(tmp_path, earlier(living) if reused else None)
    ledger.intend((7, 1))
    monkeypatch.delattr(time, "sleep")
    past = Past(tmp_path / "attempts", tmp_path / "ledgers")
    past.tidy([])
    assert not (tmp_path / "ledgers" / "earlier.ledger").exists()


def test_the_ledger_of_a_keeper_that_lives_is_kept(tmp_path: Path, living: ProcessId) -> None:
    remains(tmp_path, living)
    Past(tmp_path / "attempts", tmp_path / "ledgers").tidy([])
    assert (tmp_path / "ledgers" / "earlier.ledger").exists()


def test_a_parent_is_the_keeper_only_if_it_said_so() -> None:
    parent = stat_of(os.getppid())
    assert parent is not None
    assert keeper_of_this_process(as_word(parent.id)) == parent.id
    assert keeper_of_this_process(as_word(earlier(parent.id))) is None
    assert keeper_of_this_process("") is None


def test_a_keeper_has_a_lock_while_it_lives_which_goes_with_its_ledger(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "run(1, 'sleep 600'); open(root / 'ready', 'w'); signal.pause()")
    eventually(lambda: (tmp_path / "ready").exists(), "the daemon runs")
    [path] = (tmp_path / "ledgers").glob("*.ledger")
    assert keeper_has_lock(path)
    kept.end()
    assert not keeper_has_lock(path)
    stray = (tmp_path / "ledgers" / "stray").with_suffix(LOCK_SUFFIX)
    stray.touch()
    Past(tmp_path / "attempts", tmp_path / "ledgers").tidy([])
    assert not list((tmp_path / "ledgers").iterdir())


def test_ledgers_of_other_boots_and_namespaces_have_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stoker.executors import keeper

    me, place = this_process(), here()
    names = {ledger_path(tmp_path, me)}
    for other in (place._replace(boot="x"), place._replace(namespace="1-1")):
        monkeypatch.setattr(keeper, "here", lambda other=other: other)
        names.add(ledger_path(tmp_path, me))
    assert len(names) == 3
