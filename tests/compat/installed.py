"""Stoker as `pip install .` installs it into an empty environment: no extras, no sources."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from peers import ROOT
from stoker_home import Ran, StokerHome
from waiting import PATIENCE_S

_SOURCES = ("src", "bin", "pyproject.toml", "README.md", "LICENSE")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")
_LONGEST_S = PATIENCE_S * 5  # A compiler and a package index are at work.


@dataclass(frozen=True)
class Installed:
    """A virtual environment, and what pip does in it."""

    root: Path

    @property
    def bin(self) -> Path:
        """Where its commands are."""
        return self.root / "bin"

    def pip(self, *words: str) -> str:
        """Let the pip of the tests work on it; it has none of its own."""
        python = str(self.bin / "python")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "--python",
                python,
                *words,
            ],
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout

    def commands(self) -> set[str]:
        """The names of all that is in its `bin`."""
        return {path.name for path in self.bin.iterdir()}


def empty(root: Path) -> Installed:
    """An environment in which nothing is installed, not even pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    return Installed(root)


def installed(cache: Path) -> Installed:
    """The one that all tests share, who only use it; made by the first of them."""
    final = Installed(cache / "venv")
    cache.mkdir(exist_ok=True)
    with (cache / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / "ready").exists():
            copy_sources(cache / "sources")
            shutil.rmtree(final.root, ignore_errors=True)
            empty(final.root).pip("install", str(cache / "sources"))
            (cache / "ready").touch()
    return final


def copy_sources(to: Path) -> None:
    """What is in a clone, so that building it leaves nothing in ours."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for name in _SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, ignore=_LEFT_OUT)
        else:
            shutil.copy(ROOT / name, to / name)


def use(home: StokerHome, environment: Installed) -> None:
    """Let a home know this installation alone."""
    del home.env["PYTHONPATH"]
    usual = home.env["PATH"].split(os.pathsep)
    others = [folder for folder in usual if Path(folder) != Path(sys.executable).parent]
    home.env["PATH"] = os.pathsep.join([str(environment.bin), *others])


def typed(home: StokerHome, line: str, where: Path | None = None) -> Ran:
    """A command line as a user types it."""
    done = subprocess.run(
        ["bash", "-c", line],
        env=home.env,
        cwd=where or home.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
