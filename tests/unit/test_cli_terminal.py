"""Tables on a terminal: they fit, they align, and they are coloured only where that is wanted."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.text import terminal
from stoker.text.jobs import need_text, now_ms, time_text
from stoker.text.terminal import Column, clipped, elided, escaped, width_of
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


@given(st.lists(st.text().map(escaped), max_size=6), st.integers(0, 40), st.text(max_size=20))
def test_texts_elided_in_their_middle_are_never_too_wide(
    texts: list[str], width: int, beginning: str
) -> None:
    texts = [escaped(beginning) + text for text in texts]
    for text, short in zip(texts, elided(texts, width), strict=True):
        assert width_of(short) <= width
        assert short == text or width_of(text) > width


_FEED = [f"python train.py --lr 0.{a} --seed {b}" for a in (1, 2) for b in (1, 2)]
_OTHERS = [f"python train.py --config c.yaml --seed {b}" for b in (1, 2, 3)]
_DATA = [
    f"sleep 10 --data /data/imagenet --arch model_{m} --lr {lr} --seed {seed}"
    for m in "ab" for lr in (0.1, 0.01) for seed in (1, 2)
]  # fmt: skip
_NAMES = [
    f"model={m},lr=0.1,seed={s},weight_decay=0.0001" for m in ("resnet18", "vit") for s in (1, 2)
]


@pytest.mark.parametrize("width", [16, 20, 28])
@pytest.mark.parametrize("texts", [_FEED, _FEED + _OTHERS, _DATA, _NAMES, _DATA + _NAMES + _FEED])
def test_rows_that_differ_at_several_places_differ_when_they_are_cut(
    texts: list[str], width: int
) -> None:
    cut = elided(texts, width)
    assert len(set(cut)) == len(texts), cut
    assert all(len(one) <= width for one in cut)


def test_what_differs_is_shown_with_its_option_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal, "cut_mark", lambda: "…")
    assert elided(_FEED + _OTHERS, 22)[1] == "pyth…--lr 0.1 --seed 2"
    assert elided(_FEED + _OTHERS, 22)[5] == "python train.…--seed 2"
    assert elided(["python train.py --arch a1", "python train.py --arch a2"], 22)[1] == (
        "python train…--arch a2"
    )
    assert elided(_FEED, 16)[1] == "python tra…0.1…2"
    assert elided(_NAMES, 28)[3] == "model=vit…seed=2"
    assert elided(["python a/very/long/path.py --x"], 16) == ["python …h.py --x"]


def test_a_column_that_is_the_same_in_all_rows_gives_way_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = (Column("JOB", "job", least=16, middle=True), Column("NOTE", "note", least=24))
    rows = [{"job": one, "note": "the queue is paused by its user, who is away"} for one in _FEED]
    monkeypatch.setattr(terminal, "terminal_width", lambda: 62)
    lines = terminal.table(columns, rows).splitlines()[1:]
    assert [line[: len(_FEED[0])] for line in lines] == _FEED


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
    "status": {"gpus": [], "jobs": JOBS, "counts": {"running": 1, "waiting": 1}, "paused": True},
    "forecast": {"starts": [], "places": [1], "now_ms": 0},
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
    assert ("…" in rows[1]) == (columns == 200), "without room, a name stands for its command"
    assert ("needs 2 GPUs, 1 of 4 fr" if columns > 80 else "needs 2 GPUs") in rows[2]


def shown(home: Path, script: Script, *words: str, columns: int = 80) -> list[str]:
    with (
        ScriptedDaemon(home, script),
        Terminal(home, *words, COLUMNS=str(columns), NO_COLOR="1") as screen,
    ):
        assert screen.wait() == 0
    return rows_of(screen.screen)


def test_what_runs_comes_first_then_the_line_with_place_and_start_then_what_has_ended(
    tmp_path: Path,
) -> None:
    jobs = [
        job(1, "succeeded"), job(2, "waiting", priority=5), job(3, "held"), job(4, "waiting"),
        job(5, "running"), job(6, "waiting"),
    ]  # fmt: skip
    soon = [{"id": 4, "starts_at_ms": now_ms() + 41 * 60_000}]
    counts = {"running": 1, "waiting": 3, "held": 1, "succeeded": 900}
    status = {"gpus": [], "jobs": jobs, "counts": counts, "paused": False}
    script: Script = {
        "list": {"jobs": jobs, "total": 6},
        "status": status,
        "forecast": {"starts": soon, "places": [1, 2, 3], "now_ms": 0},
    }
    for words in (["ls"], []):
        rows = shown(tmp_path, script, *words)
        rows = rows[next(n for n, row in enumerate(rows) if row.startswith("ID")) :]
        assert [row.split()[0] for row in rows] == ["ID", "5", "4", "6", "2", "3", "1"]
        assert "1, in 40m" in rows[2]
        place = rows[0].index("PLACE")
        assert [row[place : place + 9].strip() for row in rows[3:]] == ["2", "3", "", ""]
    rest = {**status, "counts": {**counts, "waiting": 80}}
    rows = shown(tmp_path, {**script, "status": rest})
    assert rows[-1] == "and 77 more; `stoker ls` lists them"
    assert any(" in 40m" in row for row in rows)


def test_a_list_shows_the_places_that_the_daemon_tells_however_it_was_asked_for(
    tmp_path: Path,
) -> None:
    jobs = [job(1, "running"), job(4, "waiting"), job(5, "waiting"), job(6, "waiting")]
    script: Script = {
        "list": {"jobs": jobs, "total": 3},
        "forecast": {"starts": [], "places": [3, 7, None], "now_ms": 0},
    }
    for words in ("--state running,waiting", "--all --limit 5", "--name a*", "--user me", "1-6"):
        rows = shown(tmp_path, script, "ls", *words.split())
        place = rows[0].index("PLACE")
        assert [row[place : place + 5].strip() for row in rows[1:5]] == ["", "3", "7", ""]


def test_of_a_long_queue_no_start_is_estimated(tmp_path: Path) -> None:
    script: Script = {
        "list": {"jobs": [job(1, "waiting")], "total": 5000},
        "forecast": {"starts": [], "places": [1], "now_ms": 0},
    }
    with (
        ScriptedDaemon(tmp_path, script) as daemon,
        Terminal(tmp_path, "ls", COLUMNS="80", NO_COLOR="1") as screen,
    ):
        assert screen.wait() == 0
    [asked] = daemon.sent("forecast")
    assert asked["most_unfinished"] == 200 and asked["places_of"] == [1]


def test_rows_that_begin_alike_show_where_they_differ(tmp_path: Path) -> None:
    command = (
        "python train.py --config configs/a/very/long/path.yaml --seed {} --epochs 100 --data /d"
    )
    jobs = [job(n, command=command.format(n)) for n in (1, 2)]
    jobs += [job(n, name=f"experiment-with-resnet50-on-imagenet-seed-{n}") for n in (3, 4)]
    jobs += [job(5, name="an-experiment-alone-with-a-very-long-name-that-ends-in-a-seed-5")]
    noted = [
        {**one, "reason": "it waits for something that takes some room to say"} for one in jobs
    ]
    rows = shown(tmp_path, {"list": {"jobs": noted, "total": 5}}, "ls")
    assert all(width_of(row) <= 80 for row in rows)
    assert [f"…--seed {n}" in rows[n] for n in (1, 2)] == [True, True]
    assert ["…3" in rows[3], "…4" in rows[4]] == [True, True]
    assert "an-experim" in rows[5] and "seed-5 " in rows[5]


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
