"""Builds the stand-ins from C and the vendors' headers, once for each content of them."""

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

from fakegpu import amd_header, headers

_HERE = Path(__file__).resolve().parent
_SOURCES = _HERE / "c"
_FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
# A function that is played and that the vendor's header does not have is a mistake.
_SHARED = ["-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wmissing-prototypes"]
# Functions that are not played do nothing with what they are given.
_GENERATED = ["-Wno-unused-parameter", "-Wno-deprecated-declarations"]
_NVML = [
    "state", "nvml_session", "nvml_device", "nvml_processes", "nvml_links_events", "nvml_usual",
]  # fmt: skip
_CUDA = ["state", "visible", "mps_client", "libcuda"]
_PROGRAM = ["state", "visible", "mps_client", "options", "failures", "train"]


@dataclass(frozen=True)
class Built:
    """Where everything is."""

    root: Path

    @property
    def library_dir(self) -> Path:
        """Has libnvidia-ml.so.1 and libcuda.so.1, with all functions; for LD_LIBRARY_PATH."""
        return self.root / "lib"

    @property
    def library_dir_550(self) -> Path:
        """The same with the functions that a driver of the age of 550.54 has."""
        return self.root / "lib-550"

    @property
    def library_dir_amd(self) -> Path:
        """Has libamd_smi.so, and nothing of NVIDIA's."""
        return self.root / "lib-amd"

    def library_dir_of(self, driver_version: str) -> Path:
        """The one that comes with this driver."""
        is_old = int(driver_version.split(".")[0]) <= 550
        return self.library_dir_550 if is_old else self.library_dir

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
    interfaces = (headers.NVML, headers.NVML_550, headers.CUDA)
    sources = [*sorted(_SOURCES.iterdir()), *sorted(_HERE.glob("*.py"))]
    described = [*(interface.path() for interface in interfaces), amd_header.wrapper_path()]
    for source in [*sources, *described]:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _build_into(root: Path, compiler: str) -> None:
    built = Built(root)
    for name in ("lib", "lib-550", "lib-amd", "bin"):
        (root / name).mkdir()
    _build_nvml(built, compiler)
    _build_cuda(built, compiler)
    _build_amd(built, compiler)
    _run([compiler, *_FLAGS, *_files(_PROGRAM), "-o", str(built.train)])
    program = _HERE / "mps_control.py"
    # An exec, so that the process that is seen and signalled is the one that does the work.
    built.mps_control.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" "$@"\n')
    built.mps_control.chmod(0o755)


def _build_nvml(built: Built, compiler: str) -> None:
    functions = headers.NVML.functions(compiler)
    old = headers.NVML_550.functions(compiler)
    common = _shared(compiler, headers.NVML.path().parent, "libnvidia-ml.so.1", _files(_NVML))
    stubs = _written(built.root / "nvml_stubs.c", headers.nvml_stubs(functions))
    _run([*common, stubs, "-o", str(built.library)])
    # The same, and a driver of that age has no symbol for what came later.
    script = _written(
        built.root / "nvml_550.map", headers.exports([*old, "nvmlErrorString", "fakegpu_layout"])
    )
    path = built.library_dir_550 / built.library.name
    _run([*common, stubs, f"-Wl,--version-script={script}", "-o", str(path)])


def _build_cuda(built: Built, compiler: str) -> None:
    functions = headers.CUDA.functions(compiler)
    text = headers.plain_stubs(
        '#include "libcuda.h"', headers.CUDA, functions, "CUDA_ERROR_NOT_SUPPORTED"
    )
    stubs = _written(built.root / "cuda_stubs.c", text)
    path = built.library_dir / "libcuda.so.1"
    _run(
        [
            *_shared(compiler, headers.CUDA.path().parent, path.name, _files(_CUDA)),
            stubs,
            "-o",
            str(path),
        ]
    )
    (built.library_dir_550 / path.name).symlink_to(f"../{built.library_dir.name}/{path.name}")


def _build_amd(built: Built, compiler: str) -> None:
    header = amd_header.Header()
    path = Path(_written(built.root / "amdsmi.h", header.text()))
    stubs = _written(built.root / "amd_stubs.c", header.stubs())
    library = built.library_dir_amd / "libamd_smi.so"
    sources = _files(["state", "amd_smi"])
    _run([*_shared(compiler, path.parent, library.name, sources), stubs, "-o", str(library)])


def _shared(compiler: str, headers_at: Path, name: str, sources: list[str]) -> list[str]:
    """The beginning of the command that makes a shared library."""
    include = ["-isystem", str(headers_at), f"-I{_SOURCES}"]
    return [
        compiler, *_FLAGS, *_SHARED, *_GENERATED, *include, f"-Wl,-soname,{name}", *sources,
    ]  # fmt: skip


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def _files(names: list[str]) -> list[str]:
    return [str(_SOURCES / f"{name}.c") for name in names]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
