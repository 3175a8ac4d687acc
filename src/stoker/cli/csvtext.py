"""CSV for files and for terminals: no cell is taken for a formula, nor for orders to a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from stoker.text.terminal import escaped


def csv_text(rows: Iterable[Iterable[Any]], *, for_terminal: bool) -> str:
    """Rows as CSV. A file gets each text as it is, a terminal with its controls spelt out."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if for_terminal:
        rows = ([escaped(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    writer.writerows([_neutral(cell) for cell in row] for row in rows)
    return text.getvalue()


def _neutral(cell: Any) -> Any:
    """A spreadsheet runs a text that begins like a formula; an apostrophe makes it text."""
    if isinstance(cell, str) and cell:
        first = cell[0]
        if first in "=+@\t\r" or (first == "-" and not _is_number(cell)):
            return f"'{cell}"
    return cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
