"""docs/json.md describes what `--json` prints: every field is named there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stoker_home import StokerHome

TEXT = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
# Keys that are data and not names of fields.
STATES_ARE_KEYS = "counts"


def names(value: Any) -> Iterator[str]:
    """The names of all fields in an object, however deep."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            if name != STATES_ARE_KEYS:
                yield from names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names(inner)


COMMANDS = [
    "ls --all",
    "show 1",
    "show 1-2",
    "why 2",
    "wait 1",
    "groups",
    "groups limit g 3",
    "gpus",
    "config",
    "config get grace",
    "config set grace 30s",
    "daemon status",
    "status",
    "hold 2",
    "pause",
]


def test_every_field_that_is_printed_is_documented(stoker: StokerHome) -> None:
    assert stoker.cli("run", "--gpus", "0", "--", "true").code == 0
    assert stoker.cli("add", "--at", "+1h", "--group", "g", "--", "true").code == 0
    for command in COMMANDS:
        printed = json.loads(stoker.cli(*command.split(), "--json").out)
        assert printed["schema"] == 1
        unknown = {
            name for name in names(printed) if f"`{name}`" not in TEXT and f'"{name}"' not in TEXT
        }
        assert not unknown, command
