"""The rows of a CSV as entries: the five columns of the priority scheduler, or any others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches

from stoker.batch.csv_file import Row, Table
from stoker.batch.entries import Complaints, Entry, Value, option_key
from stoker.batch.template import Template, parse_template
from stoker.batch.training import COLUMNS, has_training_columns, training_entry
from stoker.errors import UsageError
from stoker.quantities import quoted

# A program that is told a file by the template writes it itself; the job's output goes elsewhere.
_FILES = ("out", "err")


@dataclass(frozen=True, slots=True)
class World:
    """What a row has to be seen against: the options of `add`, the interpreter, the files."""

    options: Collection[str]  # their keys
    interpreter: str
    is_file: Callable[[str, str], bool]  # in a directory


def is_training(table: Table, template: str | None) -> bool:
    """Whether the table has the five columns; without a header they are known by their number."""
    if template is not None:
        return False
    if table.named:
        return has_training_columns(table.names)
    if len(table.names) != len(COLUMNS):
        raise UsageError(
            f"there are {len(table.names)} columns and no header to name them",
            f"without one they are {', '.join(name.capitalize() for name in COLUMNS)}; "
            "or use --template 'python train.py {0} {1}'",
        )
    return True


def table_entries(table: Table, source: str, template: str | None, world: World) -> list[Entry]:
    """An entry for each row; every bad row is found before the file is refused."""
    training = is_training(table, template)
    if training and not table.named:
        table = Table(list(COLUMNS), table.rows, named=True)
    command = None if template is None else parse_template(template, table.names)
    columns = _Columns(table, command, training, world)
    complaints = Complaints(source)
    entries = []
    for row in table.rows:
        try:
            entries.append(columns.entry(row))
        except UsageError as error:
            complaints.add(row.line, error)
    complaints.raise_any()
    return entries


class _Columns:
    """What each column of a table means."""

    def __init__(
        self, table: Table, template: Template | None, training: bool, world: World
    ) -> None:
        self._table = table
        self._template = template
        self._training = training
        self._world = world
        self._command: int | None = None  # its column
        self._options: list[tuple[int, str]] = []  # columns with the keys of their options
        self._params: list[tuple[int, str]] = []  # the others, with their names
        for column, name in enumerate(table.names):
            self._take(column, name)
        if self._command is None and template is None and not training:
            raise UsageError(
                "there is no column `command`",
                "name one `command`, use --template 'python train.py --lr {lr}', "
                "or --header None if the file has no header",
            )

    def _take(self, column: int, name: str) -> None:
        key = option_key(name)
        used = self._template is not None and name in self._template.columns
        if self._training and name.lower() in COLUMNS:
            return
        if key == "command" and self._template is None and not self._training:
            self._command = column
        elif key in self._world.options and not (used and key in _FILES):
            self._options.append((column, key))
        elif used:
            self._params.append((column, name))
        else:
            near = get_close_matches(key, list(self._world.options), 1, 0.8)
            if near and not self._template:
                raise UsageError(
                    f"the column {quoted(name)} is not an option of `stoker add`",
                    f"did you mean {near[0].replace('_', '-')}?",
                )
            self._params.append((column, name))

    def entry(self, row: Row) -> Entry:
        cells = self._table.in_columns(row)
        values: dict[str, Value] = {
            key: cell for column, key in self._options if (cell := cells[column].strip())
        }
        params = {name: cells[column] for column, name in self._params if cells[column]}
        if self._command is not None:
            command = cells[self._command]
            if not command.strip():
                raise UsageError("the command is empty", "fill it in, or delete the row")
            return Entry(row.line, command, values, params)
        named = self._table.cells(row)
        if self._template is not None:
            return Entry(row.line, self._template.filled(named), values, params)
        lowered = {name.lower(): cell for name, cell in named.items()}
        entry = training_entry(row.line, lowered, self._world.interpreter, self._world.is_file)
        return Entry(
            row.line, entry.command, {**entry.values, **values}, {**entry.params, **params}, True
        )
