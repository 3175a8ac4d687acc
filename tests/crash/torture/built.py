"""The C parts of the driver, compiled into the directory of a run."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SOURCES = Path(__file__).resolve().parent / "c"
_FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]


@dataclass(frozen=True, slots=True)
class Built:
    """Where they are."""

    job: Path
    shim: Path


def build(directory: Path) -> Built:
    """Compile both; a job is linked statically, since it then starts in half the time."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("a C compiler (cc or gcc) is needed: its jobs are a program in C")
    built = Built(directory / "job", directory / "shim.so")
    for words in (
        [compiler, *_FLAGS, "-static", str(_SOURCES / "job.c"), "-o", str(built.job)],
        [compiler, *_FLAGS, "-fPIC", "-shared", str(_SOURCES / "shim.c"), "-o", str(built.shim),
         "-ldl"],
    ):  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}\n{done.stderr}")
    return built
