"""A parameter's value: what it means (for --where and JSON) and how it is written in a command.

A value keeps the text that its user wrote: `1e-3` stays `1e-3` in the command, and is the number
0.001 everywhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from stoker.errors import UsageError
from stoker.quantities import quoted

Data: TypeAlias = "bool | int | float | str | list[Data] | dict[str, Data] | None"

# A number as JSON and Python write it; 007 is a name, not seven.
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_MOST_DIGITS = 18  # What every JSON reader takes for a whole number.
_NAME = re.compile(r"[+~]{0,2}[^\W\d][\w.\-/@]*")
_MOST_NAME_CHARS = 100
_in_order = json.JSONEncoder(sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a parameter."""

    data: Data
    text: str
    # Its JSON: equal for equal values, however they are written; 1, 1.0 and true are three. A value
    # is that of many points, so it is worth remembering.
    key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        data = self.data
        object.__setattr__(self, "key", str(data) if type(data) is int else _in_order(data))


Point: TypeAlias = dict[str, Value]


def parameter_name(text: str) -> str:
    """A parameter's name: a word, with the dots and slashes that Hydra's names have."""
    if not _NAME.fullmatch(text) or len(text) > _MOST_NAME_CHARS:
        raise UsageError(
            f"{quoted(text)} is not a parameter's name", "write a word such as lr, or model.depth"
        )
    return text


def from_text(text: str) -> Value:
    """A value as it is typed: a number or true/false if it looks like one, else text."""
    if "\0" in text:
        raise UsageError("a value has a NUL character in it", "leave it out")
    number = number_from(text)
    if number is not None:
        return Value(number, text)
    if text.lower() in ("true", "false"):
        return Value(text.lower() == "true", text)
    return Value(text, text)


def number_from(text: str) -> int | float | None:
    """The number that a text is, or None."""
    if not _NUMBER.fullmatch(text):
        return None
    if text.lstrip("+-").isdigit():
        return int(text) if len(text.lstrip("+-")) <= _MOST_DIGITS else None
    value = float(text)
    return None if value in (float("inf"), float("-inf")) else value


def from_data(data: object) -> Value:
    """A value as a file has it."""
    plain = _plain(data)
    if isinstance(plain, str):
        if "\0" in plain:
            raise UsageError("a value has a NUL character in it", "leave it out")
        return Value(plain, plain)
    if isinstance(plain, list | dict):
        return Value(plain, json.dumps(plain, ensure_ascii=False))
    return Value(plain, str(plain))


def _plain(data: object) -> Data:
    from datetime import date, time  # Only files have these, and to import it takes a while.

    if isinstance(data, bool) or data is None:
        return data
    if isinstance(data, int):
        return data if len(str(abs(data))) <= _MOST_DIGITS else str(data)
    if isinstance(data, float):
        # JSON has no infinities; as text they reach the command unharmed.
        return data if data - data == 0 else str(data)
    if isinstance(data, str):
        try:
            data.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{quoted(data)} is not valid UTF-8", "write it in UTF-8") from None
        return data
    if isinstance(data, date | time):
        return data.isoformat()
    if isinstance(data, list | tuple):
        return [_plain(one) for one in data]
    if isinstance(data, Mapping):
        return {str(name): _plain(one) for name, one in data.items()}
    raise UsageError(f"{quoted(str(data))} can't be a parameter's value", "write a number or text")


def hydra_text(value: Value) -> str:
    """A value as Hydra's own grammar wants it on its command line."""
    if value.data is None:
        return "null"
    if isinstance(value.data, bool):
        return "true" if value.data else "false"
    if not isinstance(value.data, str) or re.fullmatch(r"[\w\-/.+%@?|*$]+", value.data, re.ASCII):
        return value.text
    # In Hydra's quotes a backslash counts as itself unless it stands before a quote.
    body = re.sub(r"(\\*)'", r"\1\1\\'", value.data)
    body = re.sub(r"(\\+)\Z", r"\1\1", body)
    return f"'{body}'"
