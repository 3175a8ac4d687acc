"""The order of names."""

from __future__ import annotations

import pytest

from stoker.store.natural import natural_key


@pytest.mark.parametrize(
    "names",
    [
        ["run-2", "Run-10", "run-100"],
        ["a", "a1", "A1b", "a2", "b"],
        ["lr0.01", "lr0.1", "lr0.25", "lr1", "lr10"],
        ["2", "10", "10 b", "a"],
    ],
)
def test_names_are_in_the_order_in_which_people_count(names: list[str]) -> None:
    assert sorted(sorted(names), key=lambda name: natural_key(name) or "") == names
    assert natural_key(None) is None
