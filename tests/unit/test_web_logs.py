"""Parts of a log: whole lines, whatever their length, wherever one begins to read."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import Failed, NotFound
from stoker.web import line_counts, logs


def texts(answer: dict[str, object]) -> list[str]:
    lines = answer["lines"]
    assert isinstance(lines, list)
    return [line["text"] for line in lines]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_a_short_log_is_read_whole_from_either_side(log: Path) -> None:
    log.write_bytes(b"one\ntwo\r\nthree")
    for answer in (logs.before(str(log), None, 65_536), logs.after(str(log), 0, 65_536)):
        assert texts(answer) == ["one", "two", "three"]
        assert (answer["start"], answer["end"], answer["size"]) == (0, 14, 14)
        assert answer["partial"] is True
    assert [line["at"] for line in answer["lines"]] == [0, 4, 9]
    log.write_bytes(b"")
    assert texts(logs.before(str(log), None, 65_536)) == []


def test_of_what_was_overwritten_only_the_last_state_is_shown(log: Path) -> None:
    log.write_bytes(b"  0 %\r 50 %\r100 %\nnext\r\n\r\n50 %\r51 %\r")
    assert texts(logs.after(str(log), 0, 65_536)) == ["100 %", "next", "", "51 %"]


def test_a_progress_bar_of_megabytes_is_one_line(log: Path) -> None:
    bar = b"".join(b"\r%07d of it" % n for n in range(300_000))
    log.write_bytes(b"before\n" + bar + b"\nafter\n")
    assert texts(logs.after(str(log), 0, 1_048_576)) == ["before", "0299999 of it", "after"]
    last = logs.before(str(log), None, 65_536)
    assert texts(last) == ["after"]
    assert texts(logs.before(str(log), last["start"], 65_536))[-1] == "0299999 of it"


def test_a_line_without_end_is_cut_and_says_so(log: Path) -> None:
    log.write_bytes(b"x" * 5_000_000 + b"\nshort\n")
    [long, short] = texts(logs.after(str(log), 0, 1_048_576))
    assert len(long) < 9_000 and long.endswith(" … 4992000 more") and short == "short"


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=60),
    st.booleans(),
    st.integers(1, 2_000),
)
def test_pieces_together_are_the_whole(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], ends: bool, step: int
) -> None:
    path = tmp_path_factory.getbasetemp() / f"pieces-{os.getpid()}"
    lines = [f"{place}" + "." * length for place, length in enumerate(lengths)]
    path.write_bytes("\n".join(lines).encode() + (b"\n" if ends else b""))
    size = path.stat().st_size
    forward: list[str] = []
    at = 0
    while at < size:
        answer = logs.after(str(path), at, step)
        forward += texts(answer)
        assert answer["end"] > at
        at = answer["end"]
    assert forward == lines
    backward: list[str] = []
    at = size
    while at > 0:
        answer = logs.before(str(path), at, step)
        assert answer["end"] == at and answer["start"] < at
        backward = texts(answer) + backward
        at = answer["start"]
    assert backward == lines


def test_text_is_found_without_minding_its_case_line_by_line(log: Path) -> None:
    log.write_bytes(b"a needle and a Needle\nhay\nNEEDLE\nn.edle")
    answer = logs.search(str(log), "needle", 0)
    assert [match["at"] for match in answer["matches"]] == [0, 26]
    assert answer["next"] is None
    assert [m["at"] for m in logs.search(str(log), "n.edle", 0)["matches"]] == [33]
    assert logs.search(str(log), "nothing", 0)["matches"] == []


def test_what_is_looked_for_is_what_a_line_shows(log: Path) -> None:
    red, link = b"\x1b[1;31m", b"\x1b]8;;http://needle\x07"
    lines = [b"a " + red + b"nee\x1b[0mdle", b"needle 0 %\rdone", red + b"hay", link + b"x",
             b"\x1b[m\x1b[K1 %\r" + red + b"NEED" + link + b"\x1b[32mLE\x1b[0m", "Ärger".encode(),
             b"nee\xc3\xa4dle", b"need\x1b[0m", b"le"]  # fmt: skip
    log.write_bytes(b"\n".join(lines))

    def found(text: str) -> list[int]:
        places = [match["at"] for match in logs.search(str(log), text, 0, places=True)["matches"]]
        starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
        return [starts.index(place) for place in places]

    assert found("needle") == [0, 4]
    assert found("31") == found("[31m") == [], "a colour is not shown"
    assert found("ärger") == found("ÄRGER") == [5]
    assert found("1 %") == [], "nor is what was overwritten"


def test_many_colours_do_not_make_a_search_slow(log: Path) -> None:
    log.write_bytes((b"\x1b[31ma\x1b[0m" * 2_000 + b"\n") * 50)
    began = time.monotonic()
    assert logs.search(str(log), "a" * 500 + "b", 0)["next"] is None
    assert time.monotonic() - began < 30


def test_places_come_by_the_thousands_and_go_on_where_they_stopped(log: Path) -> None:
    many = logs.MOST_PLACES + 3
    log.write_bytes(b"needle\n" * many)
    first = logs.search(str(log), "needle", 0, places=True)
    rest = logs.search(str(log), "needle", first["next"], places=True)
    assert first["matches"][0] == {"at": 0} and rest["next"] is None
    assert [len(first["matches"]), len(rest["matches"])] == [logs.MOST_PLACES, 3]


def test_a_long_search_goes_on_where_it_stopped(log: Path) -> None:
    log.write_bytes(b"needle\n" * 500)
    first = logs.search(str(log), "needle", 0)
    assert len(first["matches"]) == logs.MOST_MATCHES
    second = logs.search(str(log), "needle", first["next"])
    assert second["matches"][0]["at"] == logs.MOST_MATCHES * 7
    places = [match["at"] for match in first["matches"] + second["matches"]]
    assert places == list(range(0, 2 * logs.MOST_MATCHES * 7, 7))


def test_what_is_no_plain_file_is_never_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(pipe), "/dev/zero", str(tmp_path)):
        with pytest.raises(Failed):
            logs.before(path, None, 100)
    with pytest.raises(NotFound):
        logs.before(str(tmp_path / "none"), None, 100)


def test_a_file_that_was_emptied_is_read_from_its_beginning(log: Path) -> None:
    log.write_bytes(b"new\n")
    answer = logs.after(str(log), 10_000, 100)
    assert (answer["start"], texts(answer)) == (0, ["new"])


def test_lines_have_numbers_wherever_in_the_log_they_are_read(log: Path) -> None:
    log.write_bytes(b"".join(b"line %d\n" % n for n in range(1, 30_001)))
    size = log.stat().st_size
    for answer in (
        logs.after(str(log), 0, 1_000),
        logs.before(str(log), None, 1_000),
        logs.around(str(log), size // 2, 1_000),
        logs.around(str(log), size // 3, 1_000),
    ):
        assert answer["lines"][0]["text"] == f"line {answer['first']}"
    found = logs.search(str(log), "line 2777", size // 20)
    assert [f"line {match['line']}" for match in found["matches"]] == texts_of(found)
    assert len(found["matches"]) == 11
    log.write_bytes(b"anew\n" * 3)
    assert logs.before(str(log), None, 5)["first"] == 3, "what was counted is not of this text"


def texts_of(found: dict[str, Any]) -> list[str]:
    return [match["text"] for match in found["matches"]]


def test_a_log_that_takes_long_to_count_has_no_numbers_at_first(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_counts, "COUNT_S", 0.0)
    monkeypatch.setattr(line_counts, "_BLOCK_BYTES", 1_000)
    log.write_bytes(b"123456789\n" * 350)
    answers = [logs.before(str(log), None, 10)["first"] for _ in range(5)]
    assert answers == [None, None, None, 350, 350]


def test_movements_to_lines_above_stay_with_what_was_shown_at_last(log: Path) -> None:
    log.write_bytes(b"0: 1%\r0: 10%\n1: 5%\r1: 10%\x1b[A0: 1%\r0: 50%\n\x1b[31mred\x1b[0m\n")
    assert texts(logs.after(str(log), 0, 1_000)) == [
        "0: 10%", "1: 10%\x1b[A0: 50%", "\x1b[31mred\x1b[0m"]  # fmt: skip
