"""How a call becomes bytes: by cloudpickle, with the code itself where a worker can't import it."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from stoker.errors import Failed

# cloudpickle's list of modules to pickle by value is the whole process's.
_registering = threading.Lock()


def _cloudpickle() -> Any:
    try:
        import cloudpickle  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise Failed(
            "the Python library needs cloudpickle", "run: pip install 'stoker-gpu[library]'"
        ) from None
    return cloudpickle


def pickled(value: Any, target: Any) -> bytes:
    """The value as bytes; `target` is the function or class in it that the user wrote.

    What is defined in a script, a notebook, or a file that is not on the path goes along as code.
    What can be imported goes by its name.
    """
    cloudpickle = _cloudpickle()
    module = _module_of(target)
    with _by_value(cloudpickle, module) if module is not None else _as_it_is():
        data: bytes = cloudpickle.dumps(value)
    return data


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


@contextmanager
def _by_value(cloudpickle: Any, module: ModuleType) -> Iterator[None]:
    with _registering:
        new = module.__name__ not in cloudpickle.list_registry_pickle_by_value()
        if new:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            if new:
                cloudpickle.unregister_pickle_by_value(module)


def _module_of(target: Any) -> ModuleType | None:
    """The module that has to go along as code, if cloudpickle would not know so by itself."""
    while isinstance(target, partial):
        target = target.func
    name = getattr(target, "__module__", None) or type(target).__module__
    if not isinstance(name, str) or name == "__main__":
        return None
    module = sys.modules.get(name)
    if module is None or can_be_imported(module):
        return None
    return module


def can_be_imported(module: ModuleType) -> bool:
    """True if a fresh interpreter with our path would find this very module by its name."""
    path: Any = None
    spec: importlib.machinery.ModuleSpec | None = None
    parts = module.__name__.split(".")
    for count in range(1, len(parts) + 1):
        spec = _find(".".join(parts[:count]), path)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    file: str | None = getattr(module, "__file__", None)
    if file is None or spec is None or spec.origin is None:
        return True  # Built in, or a package without a file.
    return os.path.abspath(file) == os.path.abspath(spec.origin)


def _find(name: str, path: Any) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        spec: importlib.machinery.ModuleSpec | None = find_spec(name, path) if find_spec else None
        if spec is not None:
            return spec
    return None
