"""Rows of the older priority scheduler: Directory, Executable, Filename, Epochs, Priority."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

from stoker.batch.entries import Entry
from stoker.errors import UsageError
from stoker.quantities import quoted, whole_number

COLUMNS = ("directory", "executable", "filename", "epochs", "priority")
BATCH = 20  # rows, unless --num says otherwise
_MOST_EPOCHS = 10**12
_MOST_PRIORITY = 10**9


def has_training_columns(names: list[str]) -> bool:
    """Whether these are the five columns; a file that has most of them is told what it lacks."""
    found = {name.lower() for name in names} & set(COLUMNS)
    missing = [name.capitalize() for name in COLUMNS if name not in found]
    if not missing:
        return True
    if {"executable", "filename"} <= found:
        raise UsageError(
            f"the column {missing[0]} is missing",
            f"the columns are {', '.join(name.capitalize() for name in COLUMNS)}",
        )
    return False


def training_entry(
    line: int, cells: Mapping[str, str], interpreter: str, is_file: Callable[[str, str], bool]
) -> Entry:
    """One row; `is_file(directory, name)` tells files from words."""
    texts = {name: cells[name].strip() for name in COLUMNS}
    for name, text in texts.items():
        if not text:
            raise UsageError(f"{name.capitalize()} is empty", "fill it in, or delete the row")
    epochs = _integer(texts["epochs"], "Epochs", 0, _MOST_EPOCHS)
    priority = _integer(texts["priority"], "Priority", -_MOST_PRIORITY, _MOST_PRIORITY)
    directory = texts["directory"]
    executable = (
        [interpreter]
        if texts["executable"] in ("-1", "-1.0")
        else _words(texts["executable"], "Executable", directory, is_file)
    )
    program = _words(texts["filename"], "Filename", directory, is_file)
    if not program[0].startswith("-") and not is_file(directory, program[0]):
        raise UsageError(
            f"there is no file {quoted(program[0])} in {directory}", "check Filename and Directory"
        )
    return Entry(
        line,
        [*executable, *program, f"--epochs={epochs}"],
        {"cwd": directory, "priority": str(priority)},
        {"filename": texts["filename"], "epochs": str(epochs)},
        numbered=True,
    )


def _integer(text: str, what: str, lowest: int, highest: int) -> int:
    # Spreadsheets write whole numbers as 2.0 when another cell of the column is empty.
    try:
        return whole_number(text.removesuffix(".0"), lowest, highest, "number")
    except UsageError as error:
        raise UsageError(f"{what}: {error.message}", error.hint) from None


def _words(text: str, what: str, directory: str, is_file: Callable[[str, str], bool]) -> list[str]:
    """A program with arguments, as in "train.py --lr 0.1"; a file's name may have spaces in it."""
    if is_file(directory, text):
        return [text]
    try:
        return shlex.split(text)
    except ValueError:
        raise UsageError(f"{what}: {quoted(text)} has an open quote", "close it") from None
