"""A library that is missing or too old for Stoker: one clear line, and no traceback."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest

from stoker.cli.verbs import top
from stoker.errors import Failed
from stoker.installing import too_old, wrong_libraries
from stoker.web.main import _require_libraries
from unit.cli_run import stoker

NEEDS = ["msgspec>=0.18", "textual>=8.2", "starlette>=0.37", "uvicorn>=0.29", "PyYAML>=6",
         'ruff>=1; extra == "lint"']  # fmt: skip


@pytest.fixture(autouse=True)
def _old_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    have = {"msgspec": "0.22.0+cpu", "textual": "8.1.10", "starlette": "1.0", "uvicorn": "0.9.1"}

    def version(name: str) -> str:
        if name not in have:
            raise metadata.PackageNotFoundError(name)
        return have[name]

    monkeypatch.setattr(metadata, "requires", lambda _: NEEDS)
    monkeypatch.setattr(metadata, "version", version)


def test_libraries_that_are_old_or_missing_are_found() -> None:
    assert wrong_libraries() == (
        ("textual", "8.1.10", "8.2"), ("uvicorn", "0.9.1", "0.29"), ("PyYAML", "", "6"),
    )  # fmt: skip
    assert too_old("textual", "pyyaml") == "textual 8.1.10 is too old"
    assert too_old("msgspec", "starlette", "PyYAML") == ""


def test_an_old_textual_is_one_line_with_the_command_for_this_interpreter(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top, "has_terminal", lambda *_: True)
    monkeypatch.setenv("TERM", "xterm")
    ran = stoker(capsys, "top")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "textual 8.1.10 is too old" in ran.err
    assert sys.executable in ran.err and "'textual>=8.2'" in ran.err


def test_an_old_uvicorn_is_one_line_with_the_command_for_this_interpreter() -> None:
    with pytest.raises(Failed) as caught:
        _require_libraries()
    assert caught.value.message == "the page can't be served: uvicorn 0.9.1 is too old"
    assert sys.executable in caught.value.hint and "'uvicorn>=0.29'" in caught.value.hint
