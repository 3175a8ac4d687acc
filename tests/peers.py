"""The older tools themselves, as published, beside which Stoker's commands of the same name run."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PEERS = ROOT / ".venv-peers"


def peers_bin() -> Path:
    """Where their commands are; `make test` has installed them, a plain `pytest` does it now."""
    if not (_PEERS / ".ready").exists():
        with (ROOT / "pyproject.toml").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # Several workers may find them missing at once.
            if not (_PEERS / ".ready").exists():
                subprocess.run([ROOT / "scripts" / "make-peers", _PEERS], check=True)
    return _PEERS / "bin"
