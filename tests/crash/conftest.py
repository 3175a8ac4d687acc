"""Daemons that are killed here have short ledgers: so they are also killed at a rewrite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import stoker_home


@pytest.fixture(autouse=True)
def short_ledgers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each daemon write its ledger anew after every few jobs."""
    hook = str(Path(__file__).parent / "short_ledgers")
    monkeypatch.setattr(stoker_home, "SRC", f"{hook}:{stoker_home.SRC}")
    others = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{hook}:{others}" if others else hook)
