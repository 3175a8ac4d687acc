"""Builds the stand-in from its C sources, once for each content of them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_SOURCES = _HERE / "c"
_FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
_LIBRARY = ["state", "nvml_session", "nvml_device", "nvml_processes", "nvml_links_events"]
_PROGRAM = ["state", "visible", "mps_client", "options", "failures", "train"]


@dataclass(frozen=True)
class Built:
    """Where everything is."""

    root: Path

    @property
    def library_dir(self) -> Path:
        """Has libnvidia-ml.so.1; for LD_LIBRARY_PATH."""
        return self.root / "lib"

    @property
    def bin_dir(self) -> Path:
        """Has fakegpu-train and nvidia-cuda-mps-control; for PATH."""
        return self.root / "bin"

    @property
    def library(self) -> Path:
        """The stand-in for the driver's library."""
        return self.library_dir / "libnvidia-ml.so.1"

    @property
    def train(self) -> Path:
        """The workload."""
        return self.bin_dir / "fakegpu-train"

    @property
    def mps_control(self) -> Path:
        """The stand-in for MPS's control program."""
        return self.bin_dir / "nvidia-cuda-mps-control"


def has_compiler() -> bool:
    """True if the stand-in can be built here."""
    return bool(shutil.which("cc") or shutil.which("gcc"))


def build(cache: Path) -> Built:
    """The stand-in, built under `cache` unless the same sources were built there before."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("a C compiler (cc or gcc) is needed to build the stand-in driver")
    final = cache / f"fakegpu-{_fingerprint(compiler)}"
    if final.is_dir():
        return Built(final)
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "fakegpu.lock", "a", encoding="ascii") as lock:
        # Tests that run side by side need it at the same time; one of them builds it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.is_dir():
            scratch = Path(tempfile.mkdtemp(prefix="fakegpu-building-", dir=cache))
            _build_into(scratch, compiler)
            os.rename(scratch, final)
    return Built(final)


def _fingerprint(compiler: str) -> str:
    digest = hashlib.sha256(repr((compiler, _FLAGS, sys.executable, str(_HERE))).encode())
    for source in sorted(_SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _build_into(root: Path, compiler: str) -> None:
    built = Built(root)
    built.library_dir.mkdir()
    built.bin_dir.mkdir()
    shared = ["-fPIC", "-shared", "-fvisibility=hidden", "-pthread"]
    name = "-Wl,-soname,libnvidia-ml.so.1"
    _run([compiler, *_FLAGS, *shared, name, *_files(_LIBRARY), "-o", str(built.library)])
    _run([compiler, *_FLAGS, *_files(_PROGRAM), "-o", str(built.train)])
    program = _HERE / "mps_control.py"
    # An exec, so that the process that is seen and signalled is the one that does the work.
    built.mps_control.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" "$@"\n')
    built.mps_control.chmod(0o755)


def _files(names: list[str]) -> list[str]:
    return [str(_SOURCES / f"{name}.c") for name in names]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
