"""The laws of the core are raised: neither `python -O` nor PYTHONOPTIMIZE repeals one."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "src" / "stoker" / "core"
# `check` is for tests alone, and does nothing but assert.
GUARDED = sorted({*CORE.glob("*.py"), ROOT / "src" / "stoker" / "engine.py"} - {CORE / "check.py"})
LEGALITY = (
    "test_core_moves.py",
    "test_core_jobs.py::test_a_job_can_not_be_there_twice",
    "test_core_endings.py::test_a_job_that_is_not_final_can_not_be_retried",
    "test_core_endings.py::test_an_exit_is_by_code_or_by_signal_and_never_neither_or_both",
    "test_core_engine.py::test_an_impossible_event_stops_the_turn_before_its_commit",
    "test_core_fit.py::test_a_need_that_makes_no_sense_can_not_be_written_down",
    "test_core_reasons.py::test_an_outcome_is_final",
)


def test_every_law_holds_when_python_leaves_assertions_out() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        + [str(ROOT / "tests" / "unit" / name) for name in LEGALITY],
        cwd=ROOT,
        env={**os.environ, "PYTHONOPTIMIZE": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def only_narrows(test: ast.expr) -> bool:
    """True if it says no more than that something is there, or of which type it is."""
    match test:
        case ast.BoolOp(ast.And(), values):
            return all(map(only_narrows, values))
        case ast.Compare(_, [ast.IsNot()], [ast.Constant(None)]):
            return True
        case ast.Call(ast.Name("isinstance")):
            return True
    return False


@pytest.mark.parametrize("path", GUARDED, ids=lambda path: path.name)
def test_an_assertion_only_tells_the_type_checker_something(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    laws = [
        f"{path.name}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and (node.msg is not None or not only_narrows(node.test))
    ]
    assert not laws, "raise an error of stoker.core.laws instead"


@pytest.mark.parametrize(
    ("code", "narrows"),
    [
        ("x is not None", True),
        ("a.b is not None and isinstance(x, int)", True),
        ("x is None", False),
        ("x in TABLE", False),
        ("x is not None and x.number == 1", False),
    ],
)
def test_what_only_narrows_is_told_from_what_guards(code: str, narrows: bool) -> None:
    assert only_narrows(ast.parse(code, mode="eval").body) is narrows
