"""How a call becomes bytes: by cloudpickle, with the code itself where a worker can't import it.

To load cloudpickle takes as long as to start three interpreters. So functions that go to a worker
as code are put in the words of calling.py, which has all that it takes to read them.
"""

from __future__ import annotations

import importlib.machinery
import io
import marshal
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

from stoker.errors import Failed
from stoker.library.calling import bare_function, code_from, complete, module_called

# cloudpickle's list of modules to pickle by value is the whole process's.
_registering = threading.Lock()


def _cloudpickle() -> Any:
    try:
        import cloudpickle  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        from stoker.installing import install_command

        raise Failed(
            "the Python library needs cloudpickle", f"run: {install_command('cloudpickle')}"
        ) from None
    return cloudpickle


def pickled(value: Any, target: Any) -> bytes:
    """The value as bytes; `target` is the function or class in it that the user wrote.

    What is defined in a script, a notebook, or a file that is not on the path goes along as code.
    What can be imported goes by its name.
    """
    cloudpickle = _cloudpickle()
    return _dumped(value, target, cloudpickle, cloudpickle.Pickler)


def pickled_call(call: Callable[[], Any], target: Any) -> bytes:
    """The same for a worker: only there can it be read."""
    cloudpickle = _cloudpickle()
    pickler = _call_pickler(cloudpickle)
    try:
        return _dumped(call, target, cloudpickle, pickler)
    except Exception as error:
        from stoker.library.unpicklable import refusal

        def can_be_pickled(part: Any) -> bool:
            try:
                return bool(_dumped(part, target, cloudpickle, pickler))
            except Exception:
                return False

        raise refusal(call, error, can_be_pickled) from error


def _dumped(value: Any, target: Any, cloudpickle: Any, pickler: Any) -> bytes:
    module = _module_of(target)
    file = io.BytesIO()
    with _by_value(cloudpickle, module) if module is not None else nullcontext():
        pickler(file).dump(value)
    return file.getvalue()


# --- functions in the words of calling.py ---------------------------------------------------------

# What cloudpickle says of a function.
_PROPERTIES = frozenset((
    "__name__", "__qualname__", "__module__", "__doc__",
    "__defaults__", "__kwdefaults__", "__annotations__",
))  # fmt: skip
_USED = frozenset(("__globals__", "__closure__", "_cloudpickle_submodules"))


@lru_cache(maxsize=1)
def _call_pickler(cloudpickle: Any) -> Any:
    class CallPickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Cloudpickle says what goes as code, and what with it; how it is written is ours."""

        def reducer_override(self, value: Any) -> Any:
            """How a value is written that is not among the plainest."""
            if type(value) is CodeType:
                return _code(value)
            if type(value) is ModuleType:
                return _module(value, self.dispatch_table[ModuleType](value))
            reduced = super().reducer_override(value)
            if type(value) is FunctionType and reduced is not NotImplemented:
                return _function(value, reduced)
            return reduced

    return CallPickler


def _code(code: CodeType) -> Any:
    try:
        return code_from, (marshal.dumps(code),)
    except ValueError:
        return NotImplemented  # An object was put into it.


def _module(module: ModuleType, reduced: Any) -> Any:
    by_name = reduced[1] == (module.__name__,)
    return (module_called, reduced[1]) if by_name else reduced


def _function(function: FunctionType, reduced: Any) -> Any:
    """What cloudpickle says of a function, in other words; as it is if we don't understand it."""
    try:
        _, (code, scope, *_), (attributes, found), *_ = reduced
    except (TypeError, ValueError):
        return reduced
    if not isinstance(found, dict) or found.keys() != _PROPERTIES | _USED:
        return reduced
    contents = [_content(cell) for cell in function.__closure__ or ()]
    properties = {name: found[name] for name in sorted(_PROPERTIES)}
    used = found["__globals__"], contents, found["_cloudpickle_submodules"]
    bare = code, scope, len(contents)
    return bare_function, bare, (used, properties, attributes), None, None, complete


def _content(cell: Any) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


# --- what a worker can import ---------------------------------------------------------------------


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
