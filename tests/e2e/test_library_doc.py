"""Every example of docs/library.md runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import stoker
from library_home import library, output_of, run_script
from stoker.api.job_options import BY_KEY
from stoker_home import StokerHome

__all__ = ["library"]

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TRAINING, *EXAMPLES = BLOCKS


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_page_runs(library: StokerHome, number: int) -> None:
    (library.work / "training.py").write_text(TRAINING)
    printed = output_of(run_script(library, EXAMPLES[number]))
    assert printed


def test_every_public_name_of_the_library_is_on_the_page() -> None:
    for name in ("submit", "Executor", "JobFailed", "Task", "grid", "run_grid", "Client"):
        assert f"stoker.{name}" in PAGE


def test_every_option_and_every_method_of_the_client_is_on_the_page() -> None:
    methods = [name for name in vars(stoker.Client) if not name.startswith("_")]
    hidden = {"close", "call"}  # the plumbing
    for name in (*methods, *BY_KEY, "params"):
        if name not in hidden | {"params", "gpu_arg"}:
            assert f"`{name}`" in PAGE, name
