"""Tables on a terminal: they fit, they align, and they are coloured only where that is wanted."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.text import terminal
from stoker.text.jobs import need_text, time_text
from stoker.text.terminal import Column, clipped, escaped, width_of
from unit.cli_run import Terminal
from unit.scripted_daemon import Script, ScriptedDaemon, job


@given(st.text())
def test_escaped_text_is_printable_and_printable_text_is_left_alone(text: str) -> None:
    assert escaped(text).isprintable()
    if text.isprintable():
        assert escaped(text) == text


@given(st.text().map(escaped), st.integers(0, 30))
def test_clipped_text_is_never_too_wide(text: str, width: int) -> None:
    assert width_of(clipped(text, width)) <= width
    if width_of(text) <= width:
        assert clipped(text, width) == text


def test_wide_letters_take_two_columns_and_combining_ones_none() -> None:
    assert width_of("火車") == 4
    assert width_of("e\u0301") == 1
    assert width_of("größer") == 6


@given(
    st.lists(
        st.tuples(st.text(max_size=40), st.text(max_size=90), st.text(max_size=60)), max_size=8
    ),
    st.integers(60, 200),
)
def test_a_table_fits_the_terminal_and_its_columns_stand_one_below_the_other(
    texts: list[tuple[str, str, str]], width: int
) -> None:
    columns = (
        Column("ID", itemgetter(0), least=6),
        Column("COMMAND", itemgetter(1), least=16),
        Column("NOTE", itemgetter(2), least=24),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "terminal_width", lambda: width)
        lines = terminal.table(columns, texts).splitlines() if texts else []
    assert all(width_of(line) <= width for line in lines)


def test_columns_that_are_empty_in_every_row_are_left_out() -> None:
    columns = (Column("A", "a"), Column("B", "b"), Column("C", "c"))
    rows = [{"a": 1, "b": "", "c": 2}, {"a": 3, "b": None, "c": ""}]
    assert terminal.table(columns, rows) == "A  C\n1  2\n3\n"


JOBS: list[dict[str, Any]] = [
    job(7, name="big", gpus=["0", "1"], command="python train.py " + "--long-option 1 " * 20),
    job(8, "failed", name="größer 火", reason="exit code 1", group="sweep"),
    job(9, "waiting", reason="needs 2 GPUs, 1 of 4 free", command="python eval.py"),
]
SCRIPT: Script = {
    "list": {"jobs": JOBS, "total": 3},
    "status": {"gpus": [], "jobs": JOBS, "counts": {"running": 1}, "paused": True},
}


def rows_of(screen: bytes) -> list[str]:
    return [line for line in screen.decode().replace("\r", "").split("\n") if line]


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_ls_fits_the_terminal_and_keeps_reasons_readable(tmp_path: Path, columns: int) -> None:
    with (
        ScriptedDaemon(tmp_path, SCRIPT),
        Terminal(tmp_path, "ls", COLUMNS=str(columns), NO_COLOR="1") as screen,
    ):
        assert screen.wait() == 0
    rows = rows_of(screen.screen)
    assert len(rows) == 4
    assert all(width_of(row) <= columns for row in rows)
    assert "…" in rows[1]
    assert ("needs 2 GPUs, 1 of 4 fr" if columns > 80 else "needs 2 GPUs") in rows[3]


def test_a_terminal_is_coloured(tmp_path: Path) -> None:
    with ScriptedDaemon(tmp_path, SCRIPT), Terminal(tmp_path, "ls") as screen:
        assert screen.wait() == 0
    assert b"\x1b[31mfailed\x1b[0m" in screen.screen


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
@pytest.mark.parametrize("words", [["ls"], [], ["--help"], ["add", "--help"]])
def test_no_color_and_dumb_terminals_are_respected(
    tmp_path: Path, setting: dict[str, str], words: list[str]
) -> None:
    with ScriptedDaemon(tmp_path, SCRIPT), Terminal(tmp_path, *words, **setting) as screen:
        assert screen.wait() == 0
    assert b"\x1b" not in screen.screen


@pytest.mark.parametrize("state", ["waiting", "held", "submitted"])
def test_a_job_that_has_not_started_or_waits_again_shows_how_long_it_has_been_queued(
    state: str,
) -> None:
    queued = {"state": state, "submitted_at_ms": 0, "started_at_ms": 50_000, "ended_at_ms": 55_000}
    assert time_text(queued, 60_000) == "1m 00s"
    assert time_text({**queued, "state": "failed"}, 60_000) == "5s"


def test_memory_of_several_gpus_is_said_to_be_on_each() -> None:
    assert need_text({"gpus": 1, "mem_mib": 8_192}) == "1 GPU, 8.0 GiB"
    assert need_text({"gpus": 2, "mem_mib": 8_192}) == "2 GPUs, 8.0 GiB on each"
