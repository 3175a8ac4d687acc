"""The Python library in the test's own process, and scripts that use it as a user's would.

Law: no call outlives its test, since the library would start a daemon again to hear of it.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.library.channel import channel
from stoker_home import Ran, StokerHome
from waiting import PATIENCE_S, eventually


@pytest.fixture
def library(reused: StokerHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[StokerHome]:
    """A Stoker with four GPUs that the library, in this process, talks to."""
    monkeypatch.setenv("STOKER_HOME", reused.home.root)
    monkeypatch.chdir(reused.work)
    yield reused
    end_calls()


def end_calls() -> None:
    """Cancel what has not ended, and see it end."""
    left = channel().unfinished()
    if left:
        channel().cancel(left)
        channel().wait_until_ended(set(left))


def run_script(
    home: StokerHome,
    text: str,
    *words: str,
    name: str = "script.py",
    env: dict[str, str] | None = None,
) -> Ran:
    """Run a user's script to its end, in the work directory."""
    (home.work / name).write_text(text, encoding="utf-8")
    return run_python(home, name, *words, env=env)


def run_python(
    home: StokerHome, *words: str, env: dict[str, str] | None = None, stdin: str = ""
) -> Ran:
    """Run Python with these words, in the work directory."""
    done = subprocess.run(
        [sys.executable, *words],
        env=home.env | (env or {}),
        cwd=home.work,
        input=stdin.encode(),
        capture_output=True,
        timeout=PATIENCE_S * 2,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def output_of(ran: Ran) -> str:
    """What a script that must succeed has printed."""
    assert ran.code == 0, ran.err
    return ran.out


# --- calls that last as long as a test wants ------------------------------------------------------


def fifo(directory: Path, name: str = "go") -> str:
    """A pipe by which a running call is told to end."""
    path = directory / name
    os.mkfifo(path)
    return str(path)


def until_told(path: str, answer: str = "told") -> str:
    """Runs until somebody writes to the pipe."""
    with open(path, encoding="utf-8") as pipe:
        pipe.read()
    return answer


def tell(path: str) -> None:
    """Let `until_told` end, once it has begun."""

    def open_if_read() -> int:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return 0

    os.close(eventually(open_if_read, f"somebody reads {path}"))


def gpus_seen() -> str:
    """What a call sees of the GPUs."""
    return os.environ["CUDA_VISIBLE_DEVICES"]
