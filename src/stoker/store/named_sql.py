"""SQL lives in files: this reads the named queries and the schema steps out of them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from stoker.ports import BrokenRecord


@cache
def queries() -> dict[str, str]:
    """Each query of queries.sql by its name, without what is said of it there."""
    text = (files("stoker.store") / "sql" / "queries.sql").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for part in text.split("-- name: ")[1:]:
        name, _, body = part.partition("\n")
        if name in found:
            raise BrokenRecord(f"two queries are called {name}")
        lines = body.strip().splitlines()
        found[name.strip()] = "\n".join(line for line in lines if not line.startswith("--"))
    return found


@cache
def schema_steps() -> list[str]:
    """The scripts that lead from an empty file to the present schema, in order."""
    folder = files("stoker.store") / "sql" / "schema"
    steps = sorted((item.name, item) for item in folder.iterdir() if item.name.endswith(".sql"))
    for place, (name, _) in enumerate(steps, start=1):
        if int(name[:4]) != place:
            raise BrokenRecord(f"schema step {name} is out of line: is a file missing?")
    return [item.read_text(encoding="utf-8") for _, item in steps]
