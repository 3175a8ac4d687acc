"""What is compiled must be there where nothing may be left out, and is skipped elsewhere."""

from __future__ import annotations

import importlib.util
import os

import pytest


def needs_quickspawn() -> None:
    """Skip the test, or fail it under continuous integration, where `_quickspawn` was not built."""
    if importlib.util.find_spec("stoker.executors._quickspawn") is None:
        assert "CI" not in os.environ, "_quickspawn was not compiled"
        pytest.skip("_quickspawn was not compiled")
