"""What a call is called: by it listings show it, and its kind shares one memory profile."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stoker.learn.kind import kind_of
from stoker.library.channel import worker_words
from stoker.library.executor import full_name_of, title_of


def train(lr: float = 0.1) -> float:
    return lr


class Net:
    def fit(self) -> None: ...

    def __call__(self) -> None: ...


def kind(fn: Callable[..., Any]) -> str:
    return kind_of(worker_words("/calls/1.call", full_name_of(fn)), None)


def of_module(name: str) -> Callable[..., Any]:
    """A function called `train` of another module."""
    module = ModuleType(name)
    exec("def train(): pass", vars(module))
    found: Callable[..., Any] = module.train
    return found


def test_functions_of_the_same_name_in_two_modules_are_of_two_kinds() -> None:
    ours, theirs = of_module("project.vision"), of_module("project.text")
    assert title_of(ours) == title_of(theirs) == "train"
    assert kind(ours) != kind(theirs)
    assert kind(ours).endswith(" --call project.vision.train")


def test_the_same_function_is_of_one_kind_whatever_it_is_called_with() -> None:
    assert kind(train) == kind(functools.partial(train, lr=0.5))
    other_file = worker_words("/calls/2.call", full_name_of(train))
    assert kind_of(other_file, None) == kind(train)


def test_methods_and_callable_objects_have_the_name_of_their_class() -> None:
    here = __name__
    assert full_name_of(Net.fit) == full_name_of(Net().fit) == f"{here}.Net.fit"
    assert full_name_of(Net()) == f"{here}.Net"
    assert full_name_of(len) == "builtins.len"


def test_a_decorated_function_is_called_as_it_was_written() -> None:
    """As that of a Hydra app, around which its decorator puts a function of its own."""

    def _run(*args: Any) -> Any: ...

    def app(config: object) -> None: ...

    wrapper: Any = functools.update_wrapper(_run, app, assigned=(), updated=())
    assert title_of(wrapper).endswith(".app") and full_name_of(wrapper) == full_name_of(app)


@pytest.mark.parametrize(
    ("main", "wanted"),
    [
        ({"__file__": "/a/train.py", "__spec__": None}, "/a/train.py:train"),
        ({"__file__": "/a/lr=0.1/train.py"}, "/a/lr_0.1/train.py:train"),
        ({"__file__": "/a/p/run.py", "__spec__": SimpleNamespace(name="p.run")}, "p.run.train"),
        ({"__spec__": SimpleNamespace(name="p.__main__")}, "p.train"),
        ({}, "__main__.train"),
    ],
)
def test_a_function_of_a_script_is_known_by_the_scripts_path(
    main: dict[str, Any], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(**main))
    assert full_name_of(of_module("__main__")) == wanted


def test_a_function_of_a_notebook_is_known_by_the_notebooks_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    notebook = str(tmp_path / "try.ipynb")
    monkeypatch.setenv("JPY_SESSION_NAME", notebook)
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace())
    assert full_name_of(of_module("__main__")) == f"{notebook}:train"
