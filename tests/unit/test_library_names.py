"""The names of the library on the package itself, which stays light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stoker


def test_importing_stoker_loads_nothing_of_the_library() -> None:
    script = "import stoker, sys; print([m for m in sys.modules if m.startswith('stoker.')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[]"


@pytest.mark.parametrize(
    "name",
    [
        "Client",
        "Executor",
        "JobFailed",
        "JobFuture",
        "Task",
        "grid",
        "report",
        "run_grid",
        "submit",
    ],
)
def test_every_documented_name_is_there(name: str) -> None:
    assert name in dir(stoker)
    assert callable(getattr(stoker, name))


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sumbit'"):
        stoker.__getattr__("sumbit")
