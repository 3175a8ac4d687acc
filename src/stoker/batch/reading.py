"""A file of jobs read into entries, by its ending: CSV, YAML, JSON, JSON lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from dataclasses import dataclass

from stoker.batch import documents, tables, training
from stoker.batch.csv_file import decoded, read_table
from stoker.batch.entries import Entry
from stoker.errors import UsageError

_DOCUMENTS = {
    ".yaml": documents.yaml_list, ".yml": documents.yaml_list, ".json": documents.json_list,
    ".jsonl": documents.json_lines, ".ndjson": documents.json_lines,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is to be read."""

    is_csv: bool = False  # whatever its name
    header: tuple[int | None] | None = None  # the row with the names of the columns; (None,): none
    template: str | None = None
    batch_size: int | None = None


def read_entries(
    path: str, source: str, how: Reading, options: Collection[str]
) -> tuple[list[Entry], int | None]:
    """What the file says, and the size of its batches if it is worked off in batches."""
    try:
        with open(path, "rb") as file:
            text = decoded(file.read(), source)
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}", "check its name") from None
    ending = os.path.splitext(path)[1].lower()
    if not how.is_csv and ending in _DOCUMENTS:
        for option, value in (("--header", how.header), ("--template", how.template)):
            if value is not None:
                raise UsageError(f"{option} is for CSV files", f"leave it out for {source}")
        return _DOCUMENTS[ending](text, source), how.batch_size
    if not how.is_csv and ending not in (".csv", ".tsv", ""):
        raise UsageError(
            f"{source} is neither .csv, .yaml, .json nor .jsonl", "name a CSV with --csv FILE"
        )
    return _table(text, source, how, options)


def _table(
    text: str, source: str, how: Reading, options: Collection[str]
) -> tuple[list[Entry], int | None]:
    header = 0 if how.header is None else how.header[0]
    world = tables.World(options, sys.executable, _is_file)
    try:
        table = read_table(text, source, header)
        entries = tables.table_entries(table, source, how.template, world)
    except UsageError as error:
        if source in error.message:
            raise
        raise UsageError(f"{source}: {error.message}", error.hint) from None
    usual = training.BATCH if tables.is_training(table, how.template) else None
    return entries, how.batch_size or usual


def _is_file(directory: str, name: str) -> bool:
    path = os.path.join(os.path.expanduser(directory), os.path.expanduser(name))
    return os.path.isfile(path)
