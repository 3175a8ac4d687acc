"""A file that others wait for is there whole or not at all, however full the disk is."""

from __future__ import annotations

import ast
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import stoker
from stoker.core.model import Exit
from stoker.executors.attempt_dir import read_exit, write_exit
from stoker.wholefile import write_whole

SOURCES = Path(stoker.__file__).parent


@contextmanager
def files_end_after(size: int) -> Iterator[None]:
    """The kernel takes so many bytes of a file and, after that part, no more."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_an_exit_of_which_the_disk_takes_a_part_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "0000" / "7.1")
    for size in (0, 4, 9):
        with files_end_after(size), pytest.raises(OSError, match="File too large"):
            write_exit(path, Exit(code=137))
        assert os.listdir(path) == []
    write_exit(path, Exit(code=137))
    assert read_exit(path) == Exit(code=137)


def test_an_exit_that_is_there_is_not_lost_to_a_second_writing_that_fails(tmp_path: Path) -> None:
    path = str(tmp_path / "0000" / "7.1")
    write_exit(path, Exit(code=3))
    with files_end_after(4), pytest.raises(OSError):
        write_exit(path, Exit(signal=9))
    assert read_exit(path) == Exit(code=3) and os.listdir(path) == ["exit"]


def test_what_is_written_in_parts_is_whole_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write = os.write
    seen = []

    def three_bytes(fd: int, data: bytes) -> int:
        seen.append(path.exists())
        return write(fd, data[:3])

    monkeypatch.setattr(os, "write", three_bytes)
    write_whole(str(path), b"exited 137\n")
    assert path.read_bytes() == b"exited 137\n"
    assert seen == [False] * 4, "nobody sees a part of it"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_to_be_flushed_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    fsync = os.fsync
    flushed = []

    def noted(fd: int) -> None:
        fsync(fd)
        flushed.append((os.fstat(fd).st_size, path.exists()))

    monkeypatch.setattr(os, "fsync", noted)
    write_whole(str(path), b"void\n", flush=True)
    assert flushed == [(5, False)]


def test_nothing_else_is_renamed_into_place_after_a_write_that_may_be_short() -> None:
    """Who writes with os.write, which may take a part, and renames: only the one who looks."""
    both = set()
    for file in SOURCES.rglob("*.py"):
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                called = {
                    f"{node.value.id}.{node.attr}"
                    for node in ast.walk(function)
                    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
                }
                if "os.write" in called and called & {"os.rename", "os.replace"}:
                    both.add(file.relative_to(SOURCES).as_posix())
    assert both == {"wholefile.py"}
