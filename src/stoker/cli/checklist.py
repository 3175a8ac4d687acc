"""Checks as lines: a word for how each went, its name, what was found and what to do."""

from __future__ import annotations

from stoker.text.terminal import escaped


def check_line(word: str, name: str, width: int, text: str, todo: str) -> str:
    """One check; `width` is that of the longest name."""
    line = escaped(f"{word}  {name:<{width}}  {text}") + "\n"
    if todo:
        line += escaped(f"{'':{len(word) + 2}}{'':<{width}}  -> {todo}") + "\n"
    return line
