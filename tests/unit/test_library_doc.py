"""docs/library.md has every name and option of the library; tests/docs runs its examples."""

from __future__ import annotations

from pathlib import Path

import stoker
from stoker.api.job_options import BY_KEY

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")


def test_every_public_name_of_the_library_is_on_the_page() -> None:
    for name in ("submit", "Executor", "JobFailed", "Task", "grid", "run_grid", "Client"):
        assert f"stoker.{name}" in PAGE


def test_every_option_and_every_method_of_the_client_is_on_the_page() -> None:
    methods = [name for name in vars(stoker.Client) if not name.startswith("_")]
    hidden = {"close", "call"}  # the plumbing
    for name in (*methods, *BY_KEY, "params"):
        if name not in hidden | {"params", "gpu_arg"}:
            assert f"`{name}`" in PAGE, name
