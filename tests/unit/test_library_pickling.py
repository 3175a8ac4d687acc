"""What goes to a worker by name, and what as code."""

from __future__ import annotations

import importlib.util
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stoker.errors import Failed
from stoker.installing import install_command
from stoker.library.pickling import can_be_imported, pickled


def _loaded_from(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_modules_of_the_standard_library_and_built_in_ones_can_be_imported() -> None:
    assert can_be_imported(json)
    assert can_be_imported(json.decoder)
    assert can_be_imported(sys)


def test_a_file_that_is_not_on_the_path_can_not_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain.py").write_text("def f(): return 5\n")
    module = _loaded_from(tmp_path / "plain.py", "plain", monkeypatch)
    assert not can_be_imported(module)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert can_be_imported(module)


def test_a_module_of_the_same_name_elsewhere_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "colorsys.py").write_text("def f(): return 5\n")
    module = _loaded_from(tmp_path / "colorsys.py", "colorsys", monkeypatch)
    assert not can_be_imported(module)


def _called_elsewhere(call: Callable[[], Any], target: Any) -> str:
    """What another interpreter, which has nothing of ours on its path, gets from the call."""
    script = (
        "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer);"
        "print(pickle.load(sys.stdin.buffer)())"
    )
    paths = [path for path in sys.path if "site-packages" in path or "python3" in path]
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(paths) + pickled(call, target),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


def test_code_that_can_not_be_imported_goes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain.py").write_text("K = 4\ndef g(x): return x * K\ndef f(x): return g(x) + 1\n")
    module = _loaded_from(tmp_path / "plain.py", "plain", monkeypatch)
    assert _called_elsewhere(partial(module.f, 5), partial(module.f, 5)) == "21"


def test_what_one_call_needs_as_code_is_not_forced_upon_other_users_of_cloudpickle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cloudpickle  # type: ignore[import-untyped, unused-ignore]

    (tmp_path / "plain.py").write_text("def f(): return 5\n")
    module = _loaded_from(tmp_path / "plain.py", "plain", monkeypatch)
    pickled(module.f, module.f)
    assert "plain" not in cloudpickle.list_registry_pickle_by_value()


def test_without_cloudpickle_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(Failed) as caught:
        pickled(len, len)
    assert caught.value.hint == f"run: {install_command('cloudpickle')}"
