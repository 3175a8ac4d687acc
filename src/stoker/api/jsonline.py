"""JSON for the command line: one object a line, without the cost of importing `json`.

`import json` brings `re` and `enum` with it and nearly doubles the start of a process. The C code
behind it can be used alone; where an interpreter has no such code, or has changed it, the plain
module does the same work.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _refuse(value: object) -> None:
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _from_c() -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    import _json

    class Settings:
        """What the C scanner asks of a decoder."""

        strict = True
        object_hook = None
        object_pairs_hook = None
        array_hook = None
        parse_float = float
        parse_int = int
        parse_constant = float
        memo: dict[str, str] = {}  # noqa: RUF012

    scan = _json.make_scanner(Settings())  # type: ignore[arg-type]
    encode = _json.make_encoder(
        None, _refuse, _json.encode_basestring_ascii, None, ": ", ", ", False, False, False
    )

    def dumps(value: Any) -> str:
        return "".join(encode(value, 0))

    def loads(text: str) -> Any:
        text = text.strip()
        try:
            value, end = scan(text, 0)
        except StopIteration:
            raise ValueError("not JSON") from None
        if end != len(text):
            raise ValueError("more than one JSON value")
        return value

    if loads(dumps({"a": [1, 0.5, None, True, "é\n"]})) != {"a": [1, 0.5, None, True, "é\n"]}:
        raise ValueError("the interpreter's own JSON code is not as expected")
    return dumps, loads


def _from_json() -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    import json

    return json.dumps, json.loads


try:
    dumps, loads = _from_c()
except (ImportError, AttributeError, TypeError, ValueError):
    dumps, loads = _from_json()
