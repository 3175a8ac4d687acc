"""The arguments of calls as parameters of their jobs: short, plain, and safe to make and to show.

Nothing of the user's own runs for this: no `repr` of a table of a million rows, of a tensor on a
GPU, or of an object whose text is a secret. What is not plain is shown by the name of its type.
"""

from __future__ import annotations

import enum
import inspect
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from stoker.library.calling import Call, Chunk

_MOST, _MOST_INSIDE = 50, 8  # arguments; items of a list
_MOST_CHARS = 100  # of one text
_MOST_CHARS_IN_ALL = 4000


def arguments(call: Call | Chunk) -> dict[str, Any]:
    """What a function is called with, by the names of its parameters.

    Of several calls that share a job each parameter has its values.
    """
    said = vars(call)
    if "_calls" not in said:
        return parameters(_named(call.target, said["_args"], said["_keywords"]))
    calls = said["_calls"]
    found: dict[str, list[Any]] = {}
    for args in calls[: _MOST_INSIDE + 1]:
        for name, value in _named(call.target, args, {}).items():
            found.setdefault(name, []).append(value)
    more = len(calls) - _MOST_INSIDE
    if more > 1:
        found = {name: [*values[:_MOST_INSIDE], _More(more)] for name, values in found.items()}
    return parameters(found)


def parameters(named: Mapping[Any, Any]) -> dict[str, Any]:
    """The same for a point of a grid."""
    found: dict[str, Any] = {}
    left = _MOST_CHARS_IN_ALL
    for name, value in list(named.items())[:_MOST]:
        shown = _shown(value, 2)
        left -= len(json.dumps([str(name), shown]))
        if left < 0:
            break
        found[_text(str(name))] = shown
    return found


class _More(int):
    """So many further items."""


def _named(
    target: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    while isinstance(target, partial):
        args, keywords = (*target.args, *args), {**target.keywords, **keywords}
        target = target.func
    try:
        signature = inspect.signature(target)
        bound = signature.bind(*args, **keywords).arguments
    except (TypeError, ValueError):  # As some functions written in C.
        return {**{f"argument {n}": value for n, value in enumerate(args, 1)}, **keywords}
    found: dict[str, Any] = {}
    for name, value in bound.items():
        spread = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        found |= value if spread else {name: value}
    return found


def _shown(value: Any, deep: int) -> Any:
    kind = type(value)
    if kind is _More:
        return f"… {value + 0} more"
    if value is None or kind is bool:
        return value
    if isinstance(value, enum.Enum):
        return f"{kind.__name__}.{value.name}"
    if kind is int:
        return value if value.bit_length() < 64 else f"<{value.bit_length()} bits>"
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if kind is str:
        return _text(value)
    if kind in (bytes, bytearray):
        return f"<{len(value)} bytes>"
    if isinstance(value, os.PathLike) and kind.__module__.startswith("pathlib"):
        return _text(os.fspath(value))
    if kind in (list, tuple, set, frozenset, dict):
        return _inside(value, deep)
    if kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return _shown(value.item(), 0)
    if isinstance(value, type) or inspect.isroutine(value):
        return _text(getattr(value, "__qualname__", kind.__name__))
    return _text(f"<{kind.__qualname__}>")


def _inside(value: Any, deep: int) -> Any:
    more = isinstance(value, list) and value and type(value[-1]) is _More
    if not deep or (len(value) > _MOST_INSIDE and not more):
        return f"<{type(value).__name__} of {len(value)}>"
    if isinstance(value, dict):
        return {_text(str(_shown(k, 0))): _shown(one, deep - 1) for k, one in value.items()}
    return [_shown(one, deep - 1) for one in value]


def _text(text: str) -> str:
    text = "".join(letter if letter.isprintable() else "�" for letter in text[: _MOST_CHARS + 1])
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"
