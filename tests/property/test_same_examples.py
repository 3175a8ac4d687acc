"""What hypothesis tries of a test that is not random depends on nothing but the test."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def examples() -> list[tuple[int, str]]:
    tried = []

    @settings(derandomize=True, database=None, max_examples=300)
    @given(st.integers(0, 10**6), st.text(max_size=12))
    def note(number: int, text: str) -> None:
        tried.append((number, text))

    note()
    return tried


def test_a_module_that_is_loaded_changes_no_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = examples()
    file = tmp_path / "constants.py"
    file.write_text(f"NUMBERS = {list(range(1_000, 1_300))}\nTEXT = 'an odd one'\n")
    spec = importlib.util.spec_from_file_location("constants_of_a_test", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    assert examples() == before
