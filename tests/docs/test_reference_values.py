"""The table of values in the reference: every example in it is taken as it is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.quantities import duration_ms, memory_mib, signal_spec

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()


@pytest.mark.parametrize(
    ("row", "taken"),
    [("memory", memory_mib), ("length of time", duration_ms), ("signal", signal_spec)],
)
def test_every_example_of_a_value_is_taken(row: str, taken: Callable[[str], object]) -> None:
    found = re.search(rf"^\| {row} \| (.*?) \|", REFERENCE, re.MULTILINE)
    assert found is not None
    examples = re.findall(r"`([^`]+)`", found[1])
    assert examples
    for example in examples:
        assert taken(example)
