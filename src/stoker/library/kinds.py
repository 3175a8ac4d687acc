"""What an argument of the library may be, so that a slip is told by its name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from stoker.errors import UsageError, quoted


def _is_number(value: object) -> bool:
    return hasattr(type(value), "__index__") and not isinstance(value, bool)


def _are_texts(value: object) -> bool:
    if isinstance(value, str):
        return True
    if not isinstance(value, Sequence | set | frozenset) or isinstance(value, bytes):
        return False
    return all(isinstance(one, str) for one in value)


def _is_command(value: object) -> bool:
    return isinstance(value, str | Iterable) and not isinstance(value, bytes)


_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "a text": ("None", lambda value: isinstance(value, str)),
    "a text or a list of words": ("None", _is_command),
    "a whole number": ("None", _is_number),
    "a path": ("None", lambda value: isinstance(value, str | os.PathLike)),
    "True or False": ("", lambda value: isinstance(value, bool)),
    "a text or a list of texts": ("()", _are_texts),
    "a dictionary": ("None", lambda value: isinstance(value, Mapping)),
}


def check(what: str, **given: object) -> None:
    """Refuse arguments that are something else; None is what was not said."""
    nothing, fits = _KINDS[what]
    for name, value in given.items():
        if not fits(value) and not (value is None and nothing == "None"):
            hint = f"leave it out, or write {nothing}" if nothing else "write True"
            raise UsageError(f"{name} is {what}, not {quoted(repr(value)[:60])}", hint)
