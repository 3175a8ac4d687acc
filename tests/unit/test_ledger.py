from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core.model import Exit
from stoker.executors import ledger
from stoker.executors.ledger import LedgerWriter, read_ledger
from stoker.executors.processes import ProcessId


def test_a_long_ledger_is_written_anew_with_what_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_REWRITE_AT_BYTES", 2000)
    writer = LedgerWriter(tmp_path / "a.ledger", ProcessId(7, 70))
    writer.intend((1, 1))
    writer.record((1, 1), ProcessId(100, 5))
    for job_id in range(2, 200):
        writer.intend((job_id, 1))
        writer.record((job_id, 1), ProcessId(1000 + job_id, 6))
        writer.forget((job_id, 1))
    writer.close()
    entries = read_ledger(tmp_path / "a.ledger")
    assert entries.pids[1, 1] == ProcessId(100, 5)
    assert entries.keeper == ProcessId(7, 70) and entries.this_boot and entries.intent is None
    assert (tmp_path / "a.ledger").stat().st_size < 4000


def test_a_ledger_that_can_not_be_written_anew_goes_on_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_REWRITE_AT_BYTES", 100)
    writer = LedgerWriter(tmp_path / "a.ledger", None)
    (tmp_path / "a.ledger.new").mkdir()  # Neither to be removed nor to be written.
    for job_id in range(1, 20):
        writer.intend((job_id, 1))
        writer.record((job_id, 1), ProcessId(1000 + job_id, 6))
        writer.forget((job_id, 1))
    writer.close()
    assert len(read_ledger(tmp_path / "a.ledger").pids) == 19


def test_an_exit_is_there_until_it_is_forgotten_also_in_a_ledger_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_REWRITE_AT_BYTES", 500)
    path = tmp_path / "a.ledger"
    writer = LedgerWriter(path, None)
    for job_id, how in ((1, Exit(code=3)), (2, Exit(signal=9)), (3, Exit(code=0))):
        writer.intend((job_id, 1))
        writer.record((job_id, 1), ProcessId(1000 + job_id, 6))
        writer.ended((job_id, 1), how, 7_000 + job_id)
    assert read_ledger(path).exits[3, 1] == (Exit(code=0), 7_003)
    size = path.stat().st_size
    for job_id in range(3, 40):
        writer.forget((job_id, 1))
        writer.intend((job_id + 1, 1))
        writer.record((job_id + 1, 1), ProcessId(1001 + job_id, 6))
    writer.close()
    assert path.stat().st_size < size + 37 * 30, "it was written anew"
    entries = read_ledger(path)
    assert entries.exits == {(1, 1): (Exit(code=3), 7_001), (2, 1): (Exit(signal=9), 7_002)}


def test_an_exit_that_was_cut_short_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    writer = LedgerWriter(path, None)
    writer.intend((1, 1))
    writer.record((1, 1), ProcessId(1000, 6))
    writer.ended((1, 1), Exit(code=0), 7_000)
    writer.close()
    text = path.read_text()
    for length in range(text.index("exit 1"), len(text)):
        path.write_text(text[:length])
        entries = read_ledger(path)
        assert entries.exits == {} and entries.pids == {(1, 1): ProcessId(1000, 6)}


def test_an_intent_names_the_spare_that_was_to_be_told_until_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    writer = LedgerWriter(path, None)
    writer.intend((1, 1), spare=ProcessId(100, 5))
    entries = read_ledger(path)
    assert (entries.intent, entries.spare) == ((1, 1), ProcessId(100, 5))
    writer.record((1, 1), ProcessId(100, 5))
    assert read_ledger(path).intent is None
    writer.intend((2, 1), relieves=(1, 1), spare=ProcessId(101, 6))
    entries = read_ledger(path)
    assert (entries.intent, entries.spare) == ((2, 1), ProcessId(101, 6))
    assert entries.relieved_by == {(2, 1): (1, 1)}
    writer.withdraw()
    writer.intend((2, 1))
    entries = read_ledger(path)
    assert (entries.intent, entries.spare, entries.relieved_by) == ((2, 1), None, {})
    writer.close()
