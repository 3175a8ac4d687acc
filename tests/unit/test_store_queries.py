"""The file of queries keeps to its own first lines: described, used, with named parameters."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import stoker.store
from stoker.store.named_sql import queries

STORE = Path(stoker.store.__file__).parent
BY_POSITION = {
    "add_jobs", "place_job", "move_job", "end_job", "succeed_job",
    "place_attempt", "put_attempt", "start_attempt", "end_attempt", "succeed_attempt",
}  # fmt: skip


@cache
def written() -> dict[str, str]:
    """What stands in the file under each name, comments and all."""
    parts = (STORE / "sql" / "queries.sql").read_text(encoding="utf-8").split("-- name: ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


@pytest.mark.parametrize("name", queries())
def test_every_query_is_described_in_a_sentence(name: str) -> None:
    lines = re.match(r"(?:--.*\n)*", written()[name])
    assert lines is not None
    assert re.search(r"[A-Z{].*\.$", lines[0].strip(), re.DOTALL), f"{name}: what is it for?"


@pytest.mark.parametrize("name", queries())
def test_every_query_is_used(name: str) -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in STORE.glob("*.py"))
    assert f'"{name}"' in code


def test_only_what_is_written_by_the_thousand_has_parameters_without_a_name() -> None:
    # The rows of add_jobs are put together where they are written.
    without = {name for name, text in queries().items() if "?" in text} | {"add_jobs"}
    assert without == BY_POSITION


def test_the_exceptions_are_named_where_the_rule_is() -> None:
    text = (STORE / "sql" / "queries.sql").read_text(encoding="utf-8")
    head = text.partition("-- name: ")[0].replace("\n--", "")
    assert all(re.search(rf"\b{name}\b", head) for name in BY_POSITION)


def test_no_query_has_comments_when_it_is_run() -> None:
    assert not [name for name, text in queries().items() if "--" in text]
