"""What people write for amounts, and what it means."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker import quantities as q
from stoker.daemon.retention import kept_for_ms
from stoker.errors import UsageError
from stoker.moments import moment_ms
from stoker.text import duration_text, iso_utc


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


# 2026-03-10 12:00:00 UTC, which is 13:00 in Berlin.
NOON_MS = 1_773_144_000_000


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("8G", 8192),
        ("8g", 8192),
        ("8GB", 8192),
        ("8GiB", 8192),
        ("8 GiB", 8192),
        ("512M", 512),
        ("1.5g", 1536),
        ("2T", 2 * 1024 * 1024),
        ("1K", 1),
        ("1025K", 2),
        ("0.1G", 103),
    ],
)
def test_memory_is_counted_in_powers_of_1024_and_never_less_than_asked(text: str, mib: int) -> None:
    assert q.memory_mib(text) == mib


@pytest.mark.parametrize(
    "text",
    ["", "G", "8X", "8b", "8i", "-1G", "1e3", "1.G", ".5G", "1,5G", "0", "0G", "²G", "9" * 30],
)
def test_memory_that_is_none_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        q.memory_mib(text)
    assert "8G" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("10", "10G or 10M?"),
        (" 1.5 ", "1.5G or 1.5M?"),
        ("8000", "8000M or 8G?"),
        ("24576", "24576M or 24G?"),
    ],
)
def test_memory_without_a_unit_is_refused_with_two_likely_readings(
    text: str, readings: str
) -> None:
    for read in (q.memory_mib, q.job_memory, q.memory_margin):
        with pytest.raises(UsageError, match="has no unit") as refused:
            read(text)
        is_percentage = read is q.memory_margin and text == "10"
        assert refused.value.hint == ("10%, " if is_percentage else "") + readings
    with pytest.raises(UsageError, match="has no unit"):
        q.declared_gpus(f"0:{text.strip()}")
    assert q.memory_mib("512", bare="m") == 512


def test_no_margin_needs_no_unit() -> None:
    assert q.memory_margin("0") == q.memory_margin("0", bare="m") == (0, 0)


@given(st.integers(1, 10**8))
def test_memory_survives_being_shown_to_within_its_shown_precision(mib: int) -> None:
    again = q.memory_mib(q.memory_text(mib))
    assert again == mib if mib < 1024 else abs(again - mib) <= 52


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("30s", 30_000),
        ("2h", 7_200_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        ("1h30", None),
        ("1d", 86_400_000),
        ("0.5h", 1_800_000),
        ("0.1h", 360_000),
        ("250ms", 250),
        ("2 hours", 7_200_000),
        ("1w2d", 777_600_000),
        ("0", 0),
    ],
)
def test_durations_are_read_exactly(text: str, ms: int | None) -> None:
    if ms is None:
        with pytest.raises(UsageError):
            q.duration_ms(text)
    else:
        assert q.duration_ms(text) == ms


@pytest.mark.parametrize(
    ("read", "text", "readings"),
    [
        (q.run_time_ms, "2", "2m or 2h?"),
        (q.run_time_ms, "0.5", "0.5m or 0.5h?"),
        (q.run_time_ms, "60", "60m or 60h?"),
        (q.run_time_ms, "61", "61s or 61m?"),
        (q.run_time_ms, "3600", "3600s or 3600m?"),
        (q.duration_ms, "30", "30s or 30m?"),
        (q.positive_duration_ms, "1", "1s or 1m?"),
        (q.signal_spec, "USR1@2", "2s or 2m?"),
        (kept_for_ms, "30", "30d or 30h?"),
        (kept_for_ms, "90", "90d or 90h?"),
        (q.size_mib, "2", "2G or 2M?"),
        (q.size_mib, "2000", "2000M or 2G?"),
        (q.log_bound, " 2 ", "2G or 2M?"),
        (lambda text: moment_ms(text, NOON_MS), "+2", "2m or 2h?"),
    ],
)
def test_a_time_without_a_unit_is_refused_with_two_likely_readings(
    read: Callable[[str], object], text: str, readings: str
) -> None:
    with pytest.raises(UsageError, match="has no unit") as refused:
        read(text)
    assert refused.value.hint == readings


def test_a_time_of_zero_needs_no_unit_and_older_settings_are_seconds() -> None:
    assert q.duration_ms("0") == q.duration_ms("0", bare="s") == 0
    assert q.duration_ms("90", bare="s") == 90_000


@pytest.mark.parametrize(
    "text", ["", "h", "5x", "-3s", "5m2h", "1h1h", "1..5h", "1e9", "99999999d", "s5"]
)
def test_durations_that_are_none_are_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        q.duration_ms(text)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0s"), (340, "0.3s"), (9_900, "9.9s"), (12_000, "12s"), (245_000, "4m 05s"),
     (7_500_000, "2h 05m"), (273_600_000, "3d 04h")],
)  # fmt: skip
def test_durations_are_shown_in_two_units_at_most(ms: int, text: str) -> None:
    assert duration_text(ms) == text


@pytest.mark.parametrize(
    ("text", "need"),
    [
        ("2", (2, None)),
        ("0", (0, None)),
        ("0.5", (None, 0.5)),
        ("1.0", (1, None)),
        ("0.25", (None, 0.25)),
        ("0.3333", (None, 0.333)),
    ],
)
def test_gpus_are_a_count_or_a_share_of_one(
    text: str, need: tuple[int | None, float | None]
) -> None:
    assert q.gpu_need(text) == need


@pytest.mark.parametrize("text", ["1.5", "-1", "two", "", "0,5", "99999", "0.0001", "0.9999", "½"])
def test_gpus_that_can_not_be_had_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        q.gpu_need(text)


@pytest.mark.parametrize(
    ("text", "ids"),
    [("0,1,2", ["0", "1", "2"]), ("0-3", ["0", "1", "2", "3"]), ("3, 2", ["3", "2"]),
     ("1,0-2", ["1", "0", "2"]), ("007", ["7"]), ("GPU-4c21-8e", ["GPU-4c21-8e"])],
)  # fmt: skip
def test_lists_of_gpus_take_ranges_and_keep_their_order(text: str, ids: list[str]) -> None:
    assert q.gpu_ids(text) == ids


@pytest.mark.parametrize("text", ["", "0,,1", "3-1", "-1", "0-99999", "a b", "0:24G", "1\n2", "0-"])
def test_lists_of_gpus_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        q.gpu_ids(text)


def test_gpus_are_declared_with_or_without_their_memory() -> None:
    assert q.declared_gpus("0,1:24G,2-3:80G") == [
        ("0", None),
        ("1", 24576),
        ("2", 81920),
        ("3", 81920),
    ]


def test_only_an_index_or_a_uuid_is_declared() -> None:
    bare = "a7bfc12f-0000-1000-80b7-00000000beef"
    for gpu in ("12", "GPU-8932f937", f"GPU-{bare}", f"MIG-GPU-{bare}/1/0", bare):
        assert q.declared_gpus(f"{gpu}:24G") == [(gpu, 24576)]
    for word in ("x", "a100", "gpu0", "GPU-", "cuda", bare[1:], bare.replace("a", "z")):
        with pytest.raises(UsageError, match="can't be a GPU"):
            q.declared_gpus(word)


def test_a_gpu_declared_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        q.declared_gpus("0-3,2:24G")


@given(
    st.dictionaries(
        st.integers(0, 10**6).map(str), st.none() | st.integers(1, 10**6), min_size=1, max_size=20
    )
)
def test_declared_gpus_survive_being_written_down(declared: dict[str, int | None]) -> None:
    pairs = list(declared.items())
    assert q.declared_gpus(q.declared_gpus_text(pairs)) == pairs


@pytest.mark.parametrize(
    ("text", "ids"),
    [("7", ["7"]), ("3-9", ["3-9"]), ("last", ["last"]), ("3,5-6,last", ["3", "5-6", "last"]),
     ("007", ["7"])],
)  # fmt: skip
def test_ids_take_ranges_commas_and_last(text: str, ids: list[str]) -> None:
    assert q.job_ids(text) == ids


@pytest.mark.parametrize(
    "text", ["", "x", "9-3", "3-", "-3", "1.5", "last-3", "1,,2", "9" * 40, "٣"]
)
def test_ids_that_are_none_are_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        q.job_ids(text)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("USR1@2m", ("USR1", 120_000)),
        ("SIGUSR1@90s", ("USR1", 90_000)),
        ("usr2@1h", ("USR2", 3_600_000)),
        ("10@30s", ("USR1", 30_000)),
        ("TERM@0.5m", ("TERM", 30_000)),
    ],
)
def test_a_signal_is_named_with_its_time_before_the_limit(text: str, spec: tuple[str, int]) -> None:
    assert q.signal_spec(text) == spec


@pytest.mark.parametrize("text", ["USR1", "@2m", "NOPE@2m", "USR1@", "USR1@0", "999@2m", "USR1@x"])
def test_a_signal_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        q.signal_spec(text)
    assert refused.value.hint


def test_environment_variables_are_taken_apart_at_the_first_equals_sign() -> None:
    assert q.env_pair("A=b=c d") == ("A", "b=c d")
    assert q.env_pair("EMPTY=") == ("EMPTY", "")


@pytest.mark.parametrize("text", ["", "A", "=b", "A B=c", "A\n=b"])
def test_environment_variables_without_name_or_value_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        q.env_pair(text)


@pytest.mark.parametrize("text", ["", "   ", "a\nb", "a\x1b[31mb", "a\u202eb", "x" * 201])
def test_a_name_that_is_not_one_line_of_print_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        q.label(text)


def test_a_name_with_a_joined_emoji_is_refused_by_what_is_in_it() -> None:
    with pytest.raises(UsageError, match=r"an invisible character \(U\+200D"):
        q.label("\U0001f469\u200d\U0001f4bb")
    with pytest.raises(UsageError, match="a newline"):
        q.label("a\u200d\nb")


@given(st.text(min_size=1, max_size=200).filter(lambda t: t.isprintable() and bool(t.strip())))
def test_a_printable_name_is_taken_as_it_is(text: str) -> None:
    assert q.label(text) == text


# --- moments ---


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("22:00", "2026-03-10T21:00:00.000Z"),
        ("13:00", "2026-03-11T12:00:00.000Z"),  # It is 13:00 now: the next one is tomorrow's.
        ("08:00", "2026-03-11T07:00:00.000Z"),
        ("8:00", "2026-03-11T07:00:00.000Z"),
        ("13:00:01", "2026-03-10T12:00:01.000Z"),
        ("+2h", "2026-03-10T14:00:00.000Z"),
        ("+90s", "2026-03-10T12:01:30.000Z"),
        ("2026-12-01T08:00", "2026-12-01T07:00:00.000Z"),
        ("2026-12-01 08:00", "2026-12-01T07:00:00.000Z"),
        ("2026-07-01T08:00", "2026-07-01T06:00:00.000Z"),
        ("2026-12-01", "2026-11-30T23:00:00.000Z"),
        ("2026-12-01T08:00Z", "2026-12-01T08:00:00.000Z"),
        ("2026-12-01T08:00+05:30", "2026-12-01T02:30:00.000Z"),
        ("2026-12-01T08:00:30-0500", "2026-12-01T13:00:30.000Z"),
        ("2028-02-29T00:00Z", "2028-02-29T00:00:00.000Z"),
    ],
)
def test_moments_are_local_unless_an_offset_is_given(text: str, iso: str) -> None:
    assert iso_utc(moment_ms(text, NOON_MS)) == iso


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(
    "text",
    ["", "24:00", "12:60", "noon", "2026-13-01", "2026-02-30T08:00", "2026-12-01T", "2026-12-1",
     "2026-12-01T08", "2026-12-01T08:00+5", "2026-12-01x08:00", "+", "+x", "1:2", "12:00:00:00",
     "2026-12-01T08:00+05:99"],
)  # fmt: skip
def test_moments_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        moment_ms(text, NOON_MS)
    assert refused.value.hint


@pytest.mark.usefixtures("in_berlin")
def test_a_date_that_has_passed_is_refused() -> None:
    with pytest.raises(UsageError, match="passed"):
        moment_ms("2026-03-10T12:59", NOON_MS)


@pytest.mark.usefixtures("in_berlin")
def test_the_next_time_of_day_is_right_when_the_clocks_change() -> None:
    evening_before_ms = moment_ms("2026-03-28T23:00", NOON_MS)
    at_ms = moment_ms("08:00", evening_before_ms)
    assert at_ms - evening_before_ms == 8 * 3_600_000  # Nine by the clock, of which one is skipped.


@given(st.integers(NOON_MS, 4_000_000_000_000))
def test_a_moment_survives_being_written_in_utc(at_ms: int) -> None:
    whole_s_ms = at_ms // 1000 * 1000
    text = iso_utc(whole_s_ms).replace(".000", "")
    assert moment_ms(text, NOON_MS) == whole_s_ms


@given(
    st.sampled_from(
        [q.memory_mib, q.duration_ms, q.gpu_need, q.gpu_ids, q.declared_gpus, q.job_ids, q.label,
         q.env_pair, q.signal_spec, lambda text: moment_ms(text, NOON_MS)]
    ),
    st.text(max_size=40) | st.text("0123456789.,:-+@TZhmsdGMK last", max_size=20),
)  # fmt: skip
def test_any_text_is_either_understood_or_refused_with_a_hint(
    read: Callable[[str], object], text: str
) -> None:
    hint = "none needed"
    try:
        read(text)
    except UsageError as refused:
        hint = refused.hint
    assert hint


def test_what_is_no_whole_number_is_answered_with_those_that_are_allowed() -> None:
    for most, hint in ((65_535, "write a port from 1 to 65535"), (10**6, "write a port such as 1")):
        with pytest.raises(UsageError) as refused:
            q.whole_number("x", 1, most, "port")
        assert refused.value.hint == hint
