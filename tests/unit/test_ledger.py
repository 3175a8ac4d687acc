from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from stoker import machine
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


def test_a_ledger_for_which_there_was_no_room_to_be_written_anew_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_REWRITE_AT_BYTES", 0)
    writer = LedgerWriter(tmp_path / "a.ledger", None)
    for job_id in (1, 2):
        writer.intend((job_id, 1))
        writer.record((job_id, 1), ProcessId(1000 + job_id, 6))
    real_write = os.write

    def almost_full(fd: int, data: bytes) -> int:
        return real_write(fd, data if data.startswith(b"ledger ") else data[:9])

    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", almost_full)
        writer.forget((2, 1))
    assert os.listdir("/proc/self/fd") == before
    writer.close()
    assert read_ledger(tmp_path / "a.ledger").pids.keys() == {(1, 1), (2, 1)}


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


def test_what_a_process_says_of_itself_counts_for_the_open_intent_alone(tmp_path: Path) -> None:
    path = tmp_path / "l.ledger"
    writer = LedgerWriter(path, ProcessId(7, 70))

    def says(key: tuple[int, int], pid: int) -> None:
        fd, said = writer.note_for(key)
        os.write(fd, b"%s%d\n" % (said, pid))

    writer.intend((1, 1))
    assert read_ledger(path).made is None
    says((1, 1), 100)
    assert (read_ledger(path).intent, read_ledger(path).made) == ((1, 1), 100)
    writer.record_soon((1, 1), ProcessId(100, 5))
    writer.intend((2, 1))
    says((1, 1), 100)  # It has come to it late.
    entries = read_ledger(path)
    assert (entries.intent, entries.made) == ((2, 1), None)
    assert entries.pids == {(1, 1): ProcessId(100, 5)}
    writer.close()


def test_an_intent_names_the_spare_that_was_to_be_told_until_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    writer = LedgerWriter(path, None)
    writer.intend((1, 1), idle_copy=ProcessId(100, 5))
    entries = read_ledger(path)
    assert (entries.intent, entries.idle_copy) == ((1, 1), ProcessId(100, 5))
    writer.record((1, 1), ProcessId(100, 5))
    assert read_ledger(path).intent is None
    writer.intend((2, 1), follows=(1, 1), idle_copy=ProcessId(101, 6))
    entries = read_ledger(path)
    assert (entries.intent, entries.idle_copy) == ((2, 1), ProcessId(101, 6))
    assert entries.taken_over_by == {(2, 1): (1, 1)}
    writer.withdraw()
    writer.intend((2, 1))
    entries = read_ledger(path)
    assert (entries.intent, entries.idle_copy, entries.taken_over_by) == ((2, 1), None, {})
    writer.close()


def test_a_ledger_written_anew_still_tells_who_took_whose_place_until_that_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_REWRITE_AT_BYTES", 0)
    path = tmp_path / "a.ledger"
    writer = LedgerWriter(path, None)
    for job_id, follows in ((1, None), (2, (1, 1)), (3, (2, 1)), (9, None)):
        writer.intend((job_id, 1), follows)
        writer.record((job_id, 1), ProcessId(1000 + job_id, 6))
    for job_id in (1, 2):
        writer.ended((job_id, 1), Exit(code=0), 7_000 + job_id)
    length = path.stat().st_size
    writer.forget((9, 1))
    assert path.stat().st_size < length, "it was written anew"
    entries = read_ledger(path)
    assert entries.taken_over_by == {(2, 1): (1, 1), (3, 1): (2, 1)}
    assert set(entries.pids) == {(1, 1), (2, 1), (3, 1)} and entries.intent is None
    writer.forget((1, 1))
    assert read_ledger(path).taken_over_by == {(3, 1): (2, 1)}
    writer.forget((2, 1))
    assert read_ledger(path).taken_over_by == {}
    assert set(read_ledger(path).pids) == {(3, 1)}
    writer.close()


def test_a_takeover_that_came_to_nothing_is_in_no_ledger_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_REWRITE_AT_BYTES", 0)
    path = tmp_path / "a.ledger"
    writer = LedgerWriter(path, None)
    writer.intend((1, 1))
    writer.record((1, 1), ProcessId(1001, 6))
    writer.intend((2, 1), follows=(1, 1))
    writer.withdraw()
    writer.intend((2, 1))
    writer.record((2, 1), ProcessId(1002, 6))
    writer.forget((8, 1))
    assert read_ledger(path).taken_over_by == {}
    writer.close()


@pytest.mark.parametrize(
    "bad", [b"pid 1 1 10\xe400 6", b"\xff", b"intent 9 1 \xc3\xa9", b"\x80\x85"]
)
def test_a_line_with_a_byte_that_is_not_ascii_is_passed_over_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: bytes
) -> None:
    path = tmp_path / "a.ledger"
    writer = LedgerWriter(path, None)
    writer.intend((1, 1))
    writer.record((1, 1), ProcessId(1000, 6))
    writer.close()
    with path.open("ab") as file:
        file.write(bad + b"\n")
    writer = LedgerWriter(path, None)
    writer.intend((2, 1))
    writer.close()
    entries = read_ledger(path)
    assert entries.pids == {(1, 1): ProcessId(1000, 6)} and entries.intent == (2, 1)
    assert "line 5" in caplog.text and str(path) in caplog.text


def _full(*words: object) -> int:
    raise OSError(errno.ENOSPC, "no space left on device")


def test_no_descriptor_is_left_of_a_ledger_whose_first_line_can_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _full)
        with pytest.raises(OSError, match="no space"):
            LedgerWriter(tmp_path / "a.ledger", None)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("call", ["write", "rename"])
def test_a_ledger_that_can_not_be_written_anew_goes_on_and_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    writer = LedgerWriter(tmp_path / "a.ledger", None)
    writer.record((1, 1), ProcessId(1000, 6))
    monkeypatch.setattr(writer, "_rewrite_at", 0)
    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, _full)
        writer.forget((2, 1))
    assert os.listdir("/proc/self/fd") == before
    writer.record((3, 1), ProcessId(1001, 7))
    writer.close()
    assert read_ledger(tmp_path / "a.ledger").pids.keys() == {(1, 1), (3, 1)}


def test_a_ledger_says_where_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ledger"
    LedgerWriter(path, None).close()
    here = machine.here()
    entries = read_ledger(path)
    assert entries.place == here and entries.is_here and not entries.in_another_namespace
    container = here._replace(namespace="1-1", machine="", host="c")
    monkeypatch.setattr(ledger, "here", lambda: container)
    assert not entries.is_here and entries.in_another_namespace
    assert entries.why_gone == "its container ended"
    monkeypatch.setattr(ledger, "boot_id", lambda: "another")
    monkeypatch.setattr(ledger, "here", lambda: here._replace(boot="another"))
    assert not entries.is_here and not entries.in_another_namespace
    assert entries.why_gone == "it ran when the machine went down"
    monkeypatch.setattr(ledger, "here", lambda: here._replace(boot="another", machine="another"))
    assert entries.why_gone == f"it ran on {here.host}, and this machine has its state now"


def test_what_an_earlier_version_wrote_goes_by_its_boot(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    path.write_text(f"ledger {machine.boot_id()} 7 70\nintent 1 1\npid 1 1 100 5\n")
    entries = read_ledger(path)
    assert entries.is_here and entries.keeper == ProcessId(7, 70) and entries.place is None


def test_a_ledger_is_not_complete_without_the_pid_that_there_was_no_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "1.ledger"
    writer = LedgerWriter(path, ProcessId(1, 2))
    writer.intend((7, 1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _full)
        writer.record((7, 1), ProcessId(70, 700))
        with pytest.raises(OSError, match="no space"):
            writer.complete()
        assert not read_ledger(path).complete
    writer.complete()
    entries = read_ledger(path)
    assert entries.complete and entries.pids == {(7, 1): ProcessId(70, 700)}
    writer.close()
