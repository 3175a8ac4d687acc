"""Many jobs in few words: what they share is said once, and nothing is lost or made up by that."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stoker.api.compact import OWN, in_few_words
from stoker.api.messages import JobOwn

_VALUES = st.none() | st.integers(0, 2) | st.sampled_from(["a", "b"])
_SHARED = st.dictionaries(st.sampled_from(["gpus", "group", "cwd", "hold"]), _VALUES)
_OWN = st.dictionaries(st.sampled_from(sorted(OWN)), _VALUES)


def said_one_by_one(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The jobs that a submission with these fields stands for."""
    if "each" not in fields:
        return list(fields["jobs"])
    [shared] = fields["jobs"]
    return [shared | own for own in fields["each"]]


@given(_SHARED, st.lists(_OWN, min_size=11, max_size=30))
def test_alike_jobs_are_said_in_few_words(
    shared: dict[str, Any], own: list[dict[str, Any]]
) -> None:
    jobs = [shared | one for one in own]
    fields = in_few_words(jobs)
    assert fields["jobs"] == [shared] and fields["each"] == own
    assert said_one_by_one(fields) == jobs


@given(st.lists(st.tuples(_SHARED, _OWN), min_size=1, max_size=30))
def test_whatever_the_jobs_are_they_stay_the_same(
    parts: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    jobs = [shared | own for shared, own in parts]
    assert said_one_by_one(in_few_words(jobs)) == jobs


def test_what_may_differ_is_what_the_daemon_lets_differ() -> None:
    assert frozenset(JobOwn.__struct_fields__) == OWN
