"""What differs between two answers, so that of a long one only that has to be sent.

A change is `{"set": value}`, or for objects `{"of": {name: change}, "gone": [name]}`, or for lists
`{"at": [place], "to": [value]}` and `{"each": [[place, change]]}`, with `"length"` where that
differs, and what was added in `to`. The page puts them into effect: deltas.js.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

MOST_KEPT = 6  # answers, of which one may have some megabytes
_SHORT = 8  # of which not much can be saved

Change = dict[str, Any]


def change(old: Any, new: Any) -> Change | None:
    """How one value becomes another; None if they are the same (as Python has it: 1 is True)."""
    if old == new:
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        of = {
            name: {"set": value} if name not in old else found
            for name, value in new.items()
            if name not in old or (found := change(old[name], value)) is not None
        }
        return {"of": of, "gone": [name for name in old if name not in new]}
    if isinstance(old, list) and isinstance(new, list) and len(new) >= _SHORT:
        return _change_of_list(old, new)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        each = [[place, one] for place, pair in pairs if (one := change(*pair)) is not None]
        return {"each": each}
    return {"set": new}


def _change_of_list(old: list[Any], new: list[Any]) -> Change:
    at = [place for place, value in enumerate(new) if place >= len(old) or old[place] != value]
    if 2 * len(at) > len(new):
        return {"set": new}
    length = {} if len(old) == len(new) else {"length": len(new)}
    return {"at": at, "to": [new[place] for place in at], **length}


class Told:
    """The answers that were given last, by their version."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def note(self, version: str, answer: Any) -> None:
        """It may be asked what is new since this one."""
        self._kept[version] = answer
        self._kept.move_to_end(version)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    def since(self, version: str | None) -> Any | None:
        """The answer of a version, if it is still known."""
        return None if version is None else self._kept.get(version)
