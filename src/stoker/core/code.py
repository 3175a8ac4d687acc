"""The code that jobs run, as far as it is on record."""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """The git repository that jobs were queued in, which a store keeps once for all of them."""

    number: int
    root: str
    commit: str
