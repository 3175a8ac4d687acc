from __future__ import annotations

from pathlib import Path

import pytest

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
