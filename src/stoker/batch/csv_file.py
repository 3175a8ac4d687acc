"""A CSV file cut into rows, each with the line on which it begins."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import NamedTuple

from stoker.errors import UsageError
from stoker.quantities import quoted

# No cell can be longer than a command may be; the module's own limit is lower.
_LONGEST_CELL = 16 * 1024 * 1024


class Row(NamedTuple):
    """The cells of one row."""

    line: int
    cells: list[str]


def decoded(data: bytes, source: str) -> str:
    """A file's text: UTF-8, with or without the mark that some programs put at its beginning."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError(f"{source} is UTF-16 text", "save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{source}, line {line}: not valid UTF-8", "save it as UTF-8") from None


def read_rows(text: str, source: str) -> list[Row]:
    """All rows that are not empty; a cell in quotes may hold commas and newlines."""
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    rows: list[Row] = []
    line = 1
    try:
        for cells in reader:
            if "".join(cells).strip():
                rows.append(Row(line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        what = str(error)
        if "unexpected end" in what:
            what = "a quote is never closed"
        elif "expected after" in what:
            what = "something follows a closing quote"
        raise UsageError(
            f"{source}, line {line}: {what}",
            'put a cell that has quotes or commas in it in quotes, and write "" for a quote',
        ) from None
    return rows


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV file with the names of its columns; without a header they are numbers from 0."""

    names: list[str]
    rows: list[Row]
    named: bool

    def cells(self, row: Row) -> dict[str, str]:
        """A row's cells by the name of their column; those that are missing are empty."""
        return dict(zip(self.names, self.in_columns(row), strict=True))

    def in_columns(self, row: Row) -> list[str]:
        """The same, as a list in the order of the columns."""
        if len(row.cells) == len(self.names):
            return row.cells
        extra = [cell for cell in row.cells[len(self.names) :] if cell.strip()]
        if extra:
            raise UsageError(
                f"there are {len(row.cells)} cells, but {len(self.names)} columns",
                "put a cell with commas in quotes",
            )
        padded = row.cells + [""] * (len(self.names) - len(row.cells))
        return padded[: len(self.names)]


def read_table(text: str, source: str, header: int | None) -> Table:
    """The table whose header is in that row (counted from 0); what stands above it is left out."""
    rows = read_rows(text, source)
    if header is None:
        width = max((len(row.cells) for row in rows), default=0)
        return Table([str(number) for number in range(width)], rows, named=False)
    if len(rows) <= header:
        if header == 0:
            raise UsageError(f"{source} is empty", "write a header, and one row per job")
        raise UsageError(
            f"{source} has {len(rows)} rows, so there is no header in row {header}",
            "rows are counted from 0",
        )
    names = [name.strip() for name in rows[header].cells]
    while names and not names[-1]:
        names.pop()
    seen: set[str] = set()
    for name in names:
        if not name or name.lower() in seen:
            what = f"two columns are named {quoted(name)}" if name else "a column has no name"
            raise UsageError(
                f"{source}, line {rows[header].line}: {what}", "give each column its own name"
            )
        seen.add(name.lower())
    return Table(names, rows[header + 1 :], named=True)
