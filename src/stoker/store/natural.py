"""The order in which people list names: run-2 before run-10, lr0.01 before lr0.1."""

from __future__ import annotations

import re

# What follows a point are decimal places, which are in order as they are.
_NUMBER = re.compile(r"(?<![\d.])\d+")
_DIGITS = 20


def natural_key(text: str | None) -> str | None:
    """A key by which texts sort as people do it, whatever the case of letters."""
    if text is None:
        return None
    return _NUMBER.sub(lambda found: found[0].zfill(_DIGITS), text.lower())
