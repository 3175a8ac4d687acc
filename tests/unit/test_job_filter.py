"""The language of filters: what its words mean, and what is said of wrong ones."""

from __future__ import annotations

import time

import pytest

from stoker.api.job_filter import MOST_WORDS, TEXT, Term, parsed
from stoker.errors import UsageError

NOON = time.mktime((2026, 11, 19, 12, 0, 0, 0, 0, -1))
NOON_MS = int(NOON) * 1000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("  resnet  17 ", [Term(TEXT, ("resnet",)), Term(TEXT, ("17",))]),
        ("state:failed", [Term("state", ("failed",))]),
        ("State:FAILED,lost", [Term("state", ("failed", "lost"))]),
        ("state:stop", [Term("state", ("stopping", "stopped"))]),
        ("group:x name:lr*,m?", [Term("group", ("x",)), Term("name", ("lr*", "m?"))]),
        ("gpu:0-2,5", [Term("gpu", ("0", "1", "2", "5"))]),
        ("gpu:GPU-12ab", [Term("gpu", ("GPU-12ab",))]),
        ("since:2h", [Term("since", (str(NOON_MS - 2 * HOUR_MS),))]),
        ("since:13:00", [Term("since", (str(NOON_MS - 23 * HOUR_MS),))]),
        ("since:11:00", [Term("since", (str(NOON_MS - HOUR_MS),))]),
        ("since:2026-11-19T08:00", [Term("since", (str(NOON_MS - 4 * HOUR_MS),))]),
        ("-state:failed -vit", [Term("state", ("failed",), True), Term(TEXT, ("vit",), True)]),
        ("--lr 0.1 - a-b", [Term(TEXT, (one,)) for one in ("--lr", "0.1", "-", "a-b")]),
        ("name:\"my run\",'a,b' x", [Term("name", ("my run", "a,b")), Term(TEXT, ("x",))]),
        ('"lr:0.1" -"two words"', [Term(TEXT, ("lr:0.1",)), Term(TEXT, ("two words",), True)]),
        ("don't name:it's", [Term(TEXT, ("don't",)), Term("name", ("it's",))]),
        ('name:"my ru', [Term("name", ("my ru",))]),
        ("12:30 a=b:c", [Term(TEXT, ("12:30",)), Term(TEXT, ("a=b:c",))]),
    ],
)
def test_every_word_of_a_filter_has_one_meaning(text: str, terms: list[Term]) -> None:
    assert list(parsed(text, NOON_MS)) == terms


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("state:faild", "there is no state 'faild'; did you mean state:failed?"),
        ("state:done", "there is no state 'done'; did you mean state:succeeded?"),
        ("stat:failed", "there is no filter 'stat:'; did you mean state:"),
        ("gpus:2", "there is no filter 'gpus:'; did you mean gpu:"),
        ("lr:0.1", '"lr:0.1" in quotes, to search for the text'),
        ("-http://x", '"http://x" in quotes'),
        ("group:", "group: has no value; e.g. group:sweep"),
        ("name:,''", "name: has no value"),
        ("since:2", "2h"),
        ("since:2026-11-20", "is yet to come"),
        ("since:soon", "'soon' is not a length of time"),
        ("gpu:3-1", "'3-1' is not a list of GPUs"),
        ("a " * (MOST_WORDS + 1), f"use at most {MOST_WORDS}"),
    ],
)
def test_a_wrong_word_is_refused_with_the_nearest_right_one(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(text, NOON_MS)
    assert said in str(refused.value)
