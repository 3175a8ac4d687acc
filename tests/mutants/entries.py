"""The planted bugs that are kept: small changes, and the tests that must notice each of them.

They are in the `*.toml` files of this directory:

    [[mutant]]
    what = "a commit is not flushed to the disk"
    file = "src/stoker/store/database.py"
    before = "synchronous=FULL"                        # occurs exactly once in the file
    after = "synchronous=NORMAL"
    tests = ["tests/unit/test_store_durability.py"]    # paths or node ids, as pytest takes them
    # lives = "why it is right that no test notices"
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LISTS = ROOT / "tests" / "mutants"
_TEXTS = ("what", "file", "before", "after")


@dataclass(frozen=True)
class Mutant:
    """One small change, and who notices it."""

    listed_in: str
    what: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    lives: str = ""

    @property
    def name(self) -> str:
        """What it is called in tables, and found by."""
        return f"{self.listed_in}: {self.what}"


def all_mutants(lists: Path = LISTS) -> list[Mutant]:
    """Every entry of every list, in order."""
    return [mutant for path in sorted(lists.glob("*.toml")) for mutant in _listed_in(path)]


def _listed_in(path: Path) -> Iterator[Mutant]:
    for number, entry in enumerate(tomllib.loads(path.read_text(encoding="utf-8"))["mutant"], 1):
        wrong = _what_is_wrong_with(entry)
        if wrong:
            raise ValueError(f"{path.name}, entry {number}: {wrong}")
        yield Mutant(path.stem, **(entry | {"tests": tuple(entry["tests"])}))


def _what_is_wrong_with(entry: dict[str, Any]) -> str:
    unknown = entry.keys() - {*_TEXTS, "tests", "lives"}
    if unknown:
        return f"there is no such field: {', '.join(sorted(unknown))}"
    for field in _TEXTS:
        if not isinstance(entry.get(field), str):
            return f"it needs {field} = a text"
    if not isinstance(entry.get("tests"), list) or not entry["tests"]:
        return "it needs tests = a list of paths or node ids"
    return ""


def misfit(mutant: Mutant, root: Path = ROOT) -> str:
    """Why the change can't be planted, or its tests can't be found; empty if all is well."""
    file = root / mutant.file
    if not file.is_file():
        return f"there is no {mutant.file}"
    found = file.read_text(encoding="utf-8").count(mutant.before)
    if not mutant.before or found != 1:
        return f"`before` occurs {found} times in {mutant.file}, and must occur once"
    if mutant.before == mutant.after:
        return "it changes nothing"
    for test in mutant.tests:
        path, *names = test.split("::")
        if not (root / path).exists():
            return f"there is no {path}"
        if names and not _defines(root / path, [name.split("[")[0] for name in names]):
            return f"there is no {test}"
    return ""


def _defines(path: Path, names: list[str]) -> bool:
    """Whether a file has a test of this name, which may be in classes."""
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for name in names:
        found = [
            one
            for one in body
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            and one.name == name
        ]
        # A machine of hypothesis is made a test by an assignment.
        assigned = any(
            isinstance(one, ast.Assign)
            and any(isinstance(to, ast.Name) and to.id == name for to in one.targets)
            for one in body
        )
        if not found and not assigned:
            return False
        body = found[0].body if found else []
        if assigned:
            return True
    return True
