"""Programs of others that tests run, each in an environment of its own.

These are the older tools as published, beside which Stoker's commands of the same name run, and a
Python that has PyTorch, Lightning, accelerate and submitit. `make test` has installed them; a
plain `pytest` does it now.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def peers_bin() -> Path:
    """Where the commands of the older tools are."""
    return _made(".venv-peers", "make-peers")


def python_with_torch() -> Path:
    """A Python with PyTorch; the test is skipped where that can't be had."""
    try:
        return _made(".venv-torch", "make-torch") / "python"
    except subprocess.CalledProcessError as error:
        if os.environ.get("CI"):
            raise
        said = error.stderr.decode(errors="replace").strip().splitlines() or ["no time was left"]
        pytest.skip(f"PyTorch can't be installed: {said[-1]}")


def _made(environment: str, script: str) -> Path:
    """The commands of an environment, which is made if it is not there."""
    path = ROOT / environment
    if not (path / ".ready").exists():
        with (ROOT / "pyproject.toml").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # Several workers may find it missing at once.
            if not (path / ".ready").exists():
                subprocess.run([ROOT / "scripts" / script, path], check=True, stderr=-1)
    return path / "bin"
