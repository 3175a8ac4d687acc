"""GPUs and jobs as text: every shape that the daemon may tell, in every width."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.model import FINAL, JobState
from stoker.top.actions import CANCEL, RETRY
from stoker.top.feed import in_steps
from stoker.top.frame import KEYS as KEY_WORDS
from stoker.top.frame import key_lines, list_title, listed, summary
from stoker.top.gpu_rows import gpu_lines, memory_bar, memory_words, spark
from stoker.top.job_rows import STATE_STYLES, JobColumns
from stoker.top.keys import KEYS
from stoker.top.paint import BLOCKS, LETTERS, fitted, plain, pointed_at, printed, width, wrapped
from stoker.top.strips import style_of
from unit.scripted_daemon import job

GPU: dict[str, Any] = {
    "id": "0", "memory_mib": None, "reserved_mib": 0, "share_used": 0.0, "state": "free",
    "jobs": [], "declared": True,
}  # fmt: skip
MEASURED = GPU | {
    "id": "GPU-8a2f", "index": 0, "uuid": "GPU-8a2f", "name": "NVIDIA A100-SXM4-80GB",
    "memory_mib": 81_920, "used_mib": 40_960, "ours_mib": 20_480, "others_mib": 20_480,
    "free_mib": 40_960, "utilisation_percent": 87, "temperature_c": 62, "power_w": 310.4,
    "power_limit_w": 400, "foreign": [], "fault": "", "measured_at_ms": 1, "stale": False,
}  # fmt: skip


def drawn(gpus: list[dict[str, Any]], columns: int = 120, rows: int = 20) -> list[str]:
    histories = {str(gpu["id"]): [0, 50, 100] for gpu in gpus}
    names = {7: "train"}
    return [plain(line) for line in gpu_lines(gpus, histories, names, columns, rows, BLOCKS)]


def test_a_measured_gpu_shows_use_memory_temperature_and_power() -> None:
    title, line = drawn([MEASURED | {"jobs": [7], "state": "busy"}])
    assert "█ours ▒others" in title
    for words in ("A100-SXM4-80GB", "▁▅█", "87%", "40/80G", "62°C", "310/400W", "busy", "7 train"):
        assert words in line
    assert line.startswith("0 ")


def test_a_declared_gpu_shows_what_is_reserved() -> None:
    title, free, half, whole = drawn(
        [
            GPU | {"memory_mib": 24_576},
            GPU | {"id": "1", "memory_mib": 24_576, "reserved_mib": 12_288, "state": "shared"},
            GPU | {"id": "2", "share_used": 1.0, "state": "busy"},
        ]
    )
    assert "░reserved" in title and "ours" not in title
    assert "░" not in free and "0/24G" in free
    assert half.count("░") == half.count("·") and "12/24G" in half
    assert "·" not in whole and "100%" in whole


def test_a_gpu_that_nobody_measures_says_so_beside_those_that_are() -> None:
    _, _, line = drawn([MEASURED, GPU])
    assert "not measured" in line


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"fault": "GPU is lost"}, ["fault", "GPU is lost"]),
        ({"stale": True}, ["stale"]),
        ({"state": "drained"}, ["drained"]),
        (
            {"foreign": [{"pid": 77, "user": "bob", "command": "python", "used_mib": 9}]},
            ["in use", "other: bob python 77"],
        ),
        ({"foreign": [{"pid": None, "user": None, "command": None}]}, ["other: ?"]),
    ],
)
def test_what_is_unusual_is_said_in_words(fields: dict[str, Any], words: list[str]) -> None:
    _, line = drawn([MEASURED | fields], columns=140)
    for word in words:
        assert word in line


def test_the_bar_shows_ours_others_what_is_reserved_and_what_is_free() -> None:
    gpu = MEASURED | {"reserved_mib": 40_960}
    assert plain(memory_bar(gpu, 8, BLOCKS)) == "██▒▒░░··"
    assert plain(memory_bar(gpu, 8, LETTERS)) == "##xx==.."
    little = MEASURED | {"ours_mib": 1, "others_mib": 1, "used_mib": 2}
    assert plain(memory_bar(little, 8, BLOCKS)) == "█▒······"
    full = MEASURED | {"ours_mib": 81_920, "others_mib": 81_920, "reserved_mib": 81_920}
    assert plain(memory_bar(full, 8, BLOCKS)) == "████████"
    assert memory_words(gpu) == "40/80G"


def test_a_spark_line_ends_with_now_and_leaves_gaps() -> None:
    assert plain(spark([0, None, 100, 250, -3], 6, BLOCKS)) == " ▁ ██▁"
    assert plain(spark([], 3, BLOCKS)) == "   "
    assert plain(spark(range(100), 2, LETTERS)) == "##"


def test_bars_are_coloured_by_load_and_every_colour_reaches_both_kinds_of_terminal() -> None:
    assert spark([5, 9, None, 50, 95], 6, BLOCKS) == [
        (" ", ""), ("▁▂", "dim"), (" ", ""), ("▅", "green"), ("█", "red"),
    ]  # fmt: skip
    full = MEASURED | {"used_mib": 81_920, "ours_mib": 70_000, "others_mib": 11_920}
    assert [style for _, style in memory_bar(full, 8, BLOCKS)] == ["red", "magenta"]
    declared = {"id": "0", "memory_mib": 81_920, "reserved_mib": 8_192}
    assert memory_bar(declared, 10, BLOCKS)[0] == ("░", "green")
    assert memory_bar(declared | {"reserved_mib": 0}, 10, BLOCKS) == [("·" * 10, "dim")]
    styles = {word for style in STATE_STYLES.values() for word in style.split()}
    for word in styles - {"bold", "dim"}:
        assert style_of(word).color, word
        assert printed([("x", word)], colours=True) != "x"


def test_use_over_time_is_drawn_in_steps_that_begin_at_fixed_moments() -> None:
    now = 1_000_000_000
    assert in_steps([], [], now) == [None] * 60
    at_ms = [now - 25_000, now - 21_000, now - 9_000, now - 1]
    # Two within one step, none in the next, then two steps with one each.
    assert in_steps(at_ms, [10, 30, None, 80], now)[-4:] == [20, 20, 80, 80]
    assert in_steps([now - 500_000], [50], now)[-60:].count(50) == 7, "a long gap stays a gap"
    later = in_steps(at_ms, [10, 30, None, 80], now + 9_999)
    assert later == in_steps(at_ms, [10, 30, None, 80], now)


def test_many_gpus_stand_beside_each_other_and_the_rest_is_counted() -> None:
    gpus = [MEASURED | {"id": str(number), "index": number} for number in range(16)]
    lines = drawn(gpus, columns=80, rows=9)
    assert len(lines) == 8
    assert lines[0].startswith("0 ") and " 8 " in lines[0]
    lines = drawn(gpus, columns=80, rows=5)
    assert len(lines) == 5 and lines[-1].startswith("and 8 more")


HOSTILE = "\x1b[31m[red]\n\u202e火\ufe0f<b>"
TEXT = st.one_of(st.just(HOSTILE), st.text(max_size=30))
NUMBER = st.one_of(st.none(), st.floats(0, 500), st.integers(0, 200_000))


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "id": TEXT.filter(bool),
                "state": st.sampled_from(["free", "busy", "shared", "drained", "removing"]),
                "jobs": st.lists(st.integers(1, 9), max_size=3),
            },
            optional={
                "index": st.one_of(st.none(), st.integers(0, 99)),
                "name": st.one_of(st.none(), TEXT),
                "memory_mib": st.one_of(st.none(), st.integers(0, 200_000)),
                "reserved_mib": st.integers(0, 300_000),
                "share_used": st.floats(0, 1),
                "used_mib": NUMBER,
                "ours_mib": NUMBER,
                "others_mib": NUMBER,
                "free_mib": NUMBER,
                "utilisation_percent": NUMBER,
                "temperature_c": NUMBER,
                "power_w": NUMBER,
                "power_limit_w": NUMBER,
                "foreign": st.lists(st.fixed_dictionaries({"user": TEXT, "command": TEXT})),
                "fault": st.one_of(st.none(), TEXT),
                "stale": st.booleans(),
            },
        ),
        max_size=20,
    ),
    st.integers(10, 220),
    st.integers(3, 30),
)
def test_gpus_never_take_more_room_than_there_is(
    gpus: list[dict[str, Any]], columns: int, rows: int
) -> None:
    histories = {str(gpu["id"]): [None, 3, 100.0] for gpu in gpus}
    for glyphs in (BLOCKS, LETTERS):
        lines = gpu_lines(gpus, histories, {1: HOSTILE}, columns, rows, glyphs)
        assert len(lines) <= rows
        for line in lines:
            assert width(fitted(line, columns)) == columns
            assert plain(line).isprintable()
            if gpus:
                assert width(line) == columns


@given(
    TEXT, TEXT, st.sampled_from(["held", "waiting", "running", "failed", "lost"]),
    st.integers(1, 10**9), st.integers(5, 220),
)  # fmt: skip
def test_a_job_takes_exactly_its_row(
    name: str, reason: str, state: str, job_id: int, columns: int
) -> None:
    table = JobColumns(columns, job_id)
    view = job(job_id, state, name=name, reason=reason, group=name, command=reason, priority=-3,
               started_at_ms=1, submitted_at_ms=1)  # fmt: skip
    line = table.line(view, 10**12, marked=True, glyphs=BLOCKS)
    assert width(line) == columns == width(table.title()) == width(table.absent())
    assert plain(line).isprintable()


def test_every_key_has_a_word_on_two_lines_of_eighty_columns() -> None:
    lines = [plain(line) for line in key_lines(80)]
    assert len(lines) == 2
    shown = {words.rpartition(" ")[0] for line in lines for words in line.strip().split("  ")}
    assert shown == {key for key, _ in KEY_WORDS}
    bound = {one for keys, _ in KEYS for one in keys.split(",")}
    spoken = {"?": "question_mark", "/": "slash", "Esc": "escape", "+ -": "plus"}
    assert {spoken.get(key, key.lower()) for key in shown} <= bound


def test_where_there_is_room_a_job_says_when_it_should_start() -> None:
    def text(columns: int, starts_at_ms: int | None) -> str:
        table, view = JobColumns(columns, 7), job(7, "waiting")
        line = table.line(view, 1000, marked=False, glyphs=BLOCKS, starts_at_ms=starts_at_ms)
        return plain(table.title()) + plain(line)

    assert "STARTS" in text(110, None) and " in 40m " in text(110, 2_431_000)
    assert " soon " in text(110, 500)
    assert "STARTS" not in text(109, 2_431_000) and "40m" not in text(109, 2_431_000)


@pytest.mark.parametrize("state", ["waiting", "held", "submitted"])
def test_a_job_that_was_queued_again_has_waited_since_then_and_has_no_gpu(state: str) -> None:
    day_ms = 86_400_000
    view = job(7, state, submitted_at_ms=0, queued_at_ms=day_ms - 5_000, attempt=1)
    text = plain(JobColumns(100, 7).line(view, day_ms, marked=False, glyphs=BLOCKS))
    assert " 5s" in text and "1d" not in text and "24h" not in text
    assert " x1 " in text, "how many it needs, and not those that it had"


def test_a_job_that_is_suspended_or_gives_way_says_so_and_its_time_stands_still() -> None:
    def text(**fields: Any) -> str:
        view = job(7, started_at_ms=1_000, **fields)
        return plain(JobColumns(100, 7).line(view, 90_000, marked=False, glyphs=BLOCKS))

    stands = text(suspended_at_ms=11_000, suspended_ms=3_000, reason="suspended for 1m 19s")
    assert " suspended " in stands and " 7s " in stands and "suspended for 1m 19s" in stands
    assert "gives way for job 9" in text(state="stopping", reason="gives way for job 9")


def test_the_columns_stay_where_they_are_whatever_is_shown() -> None:
    table = JobColumns(100, 500)
    lines = [
        plain(table.line(job(number, name="x" * number), 0, marked=False, glyphs=BLOCKS))
        for number in (1, 50, 500)
    ]
    assert {line.index("running") for line in lines} == {lines[0].index("running")}
    assert {line.index("python") for line in lines} == {lines[0].index("python")}


def test_colours_can_be_left_out_and_no_meaning_goes_with_them() -> None:
    line = fitted([("stoker", "bold"), (" 1 failed", "red")], 30)
    assert printed(line, colours=False) == "stoker 1 failed"
    assert printed(line, colours=True) == "\x1b[1mstoker\x1b[0m\x1b[31m 1 failed\x1b[0m"
    assert {style for _, style in pointed_at(line)} == {"bold reverse", "reverse"}


def test_every_state_is_counted_and_has_its_orders() -> None:
    states = {state.value for state in JobState}
    line = plain(summary({"counts": dict.fromkeys(states, 3)}, 500, BLOCKS))
    assert sorted(line.rstrip().split("  ")[1:]) == sorted(f"3 {state}" for state in states)
    ended = {state.value for state in FINAL}
    assert CANCEL.states == states - ended - {"stopping"} and RETRY.states == ended


def test_the_summary_names_what_there_is() -> None:
    overview = {"counts": {"running": 2, "waiting": 10_000, "failed": 0}, "paused": True,
                "paused_groups": ["sweep"], "cpus": {"used": 2, "total": 8}}  # fmt: skip
    line = plain(summary(overview, 200, BLOCKS))
    for words in ("2 running", "10,000 waiting", "PAUSED", "group sweep paused", "2/8 CPU slots"):
        assert words in line
    assert "failed" not in line
    assert "no jobs" in plain(summary({}, 80, BLOCKS))


@given(st.integers(1, 200))
def test_titles_and_keys_fit_into_any_width(columns: int) -> None:
    words = listed(1_000, "lr", "name", descending=True, marked=3)
    assert width(list_title(words, columns, BLOCKS)) == columns
    assert all(width(line) == columns for line in key_lines(columns))


@given(st.lists(st.tuples(st.text("ab火e\u0301 ", max_size=20), st.just("")), max_size=4),
       st.integers(1, 12), st.integers(0, 20))  # fmt: skip
def test_wrapping_loses_nothing_but_what_can_have_no_room(
    line: list[tuple[str, str]], columns: int, indent: int
) -> None:
    rows = wrapped(line, columns, indent)
    assert all(width(row) <= columns for row in rows)
    if columns >= 4:
        kept = "".join(plain(row) for row in rows).replace(" ", "")
        assert kept == plain(line).replace(" ", "")
