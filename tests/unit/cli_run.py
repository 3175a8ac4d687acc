"""Ways to run the command line in tests: inside this process, as one of its own, on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import terminals
from stoker.cli.main import main
from waiting import PATIENCE_S

SRC = str(Path(__file__).parents[2] / "src")


@dataclass(frozen=True)
class Ran:
    """What came of a command line."""

    code: int
    out: str
    err: str


def stoker(capsys: pytest.CaptureFixture[str], *words: str) -> Ran:
    """Run a command line in this process."""
    capsys.readouterr()
    code = main(list(words))
    captured = capsys.readouterr()
    return Ran(code, captured.out, captured.err)


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment for a process of its own, in which nothing of the tester's is left."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "STOKER_HOME": str(home),
        "PYTHONPATH": SRC,
        **more,
    }


def argv(*words: str) -> list[str]:
    """The words that run a command line as a process of its own."""
    return [sys.executable, "-m", "stoker", *words]


def process(home: Path, *words: str, **more: str) -> Ran:
    """Run a command line as a process of its own."""
    done = subprocess.run(
        argv(*words),
        env=environment(home, **more),
        cwd=home,
        capture_output=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


class Terminal(terminals.Terminal):
    """A command line in a terminal of its own, as a user would run it; use it as a context."""

    def __init__(self, home: Path, *words: str, **more: str) -> None:
        super().__init__(argv(*words), environment(home, **more), home)
