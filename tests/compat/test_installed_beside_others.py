"""Older tools with packages and commands of the same names: what they took away is noticed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from stoker.api import installed
from stoker_home import SRC, StokerHome
from waiting import PATIENCE_S

BIN = Path(__file__).parents[2] / "bin"


def status(home: StokerHome, program: Path, *path: Path, code: int = 0) -> str:
    """What `stoker daemon status` says on stderr, of an installation like this."""
    done = subprocess.run(
        [sys.executable, program, "daemon", "status"],
        env=home.env | {"PYTHONPATH": ":".join(map(str, path))},
        cwd=home.work,
        capture_output=True,
        timeout=PATIENCE_S,
        text=True,
        check=False,
    )
    assert done.returncode == code, done
    return done.stderr


def test_files_that_another_tool_took_away_or_hides_are_named(stoker: StokerHome) -> None:
    assert status(stoker, BIN / "stoker", Path(SRC)) == ""
    other = stoker.root / "other"
    (other / "gpu_task_scheduler").mkdir(parents=True)
    (other / "gpu_task_scheduler" / "__init__.py").touch()
    told = status(stoker, BIN / "stoker", other, Path(SRC))
    assert f"{other}/gpu_task_scheduler is imported instead of Stoker's" in told
    own = stoker.root / "own"
    shutil.copytree(SRC, own, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (own / "gpu_task_scheduler" / "gpu_task.py").unlink()
    assert "gpu_task_scheduler/gpu_task.py is missing" in status(stoker, BIN / "stoker", own)


def test_every_file_that_another_tool_could_overwrite_is_looked_at() -> None:
    files = (Path(SRC) / installed.PACKAGE).glob("*.py")
    assert {file.stem for file in files} == set(installed._MODULES)


def test_a_file_that_another_tool_overwrote_is_named(stoker: StokerHome) -> None:
    own = stoker.root / "own"
    shutil.copytree(SRC, own, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for file in (own / installed.PACKAGE).glob("*.py"):
        ours = file.read_text()
        file.write_text("class GPUTaskScheduler:\n    pass\n")
        told = status(stoker, BIN / "stoker", own)
        assert f"{file} is another tool's; uninstall it, then reinstall Stoker: " in told
        file.write_text(ours)


def test_what_is_missing_is_also_named_while_no_daemon_runs(home: StokerHome) -> None:
    folder = home.root / "bin"
    shutil.copytree(BIN, folder)
    (folder / "simple_hypersearch").unlink()
    told = status(home, folder / "stoker", Path(SRC), code=4)
    assert "bin/simple_hypersearch is missing; reinstall Stoker" in told


def test_commands_that_another_tool_took_away_are_named(stoker: StokerHome) -> None:
    folder = stoker.root / "bin"
    shutil.copytree(BIN, folder)
    (folder / "simple_hypersearch").unlink()
    (folder / "simple_gpu_scheduler").write_text("#!/usr/bin/python3\nprint('the older one')\n")
    told = status(stoker, folder / "stoker", Path(SRC))
    assert "bin/simple_hypersearch is missing; reinstall Stoker" in told
    assert "bin/simple_gpu_scheduler is another tool's" in told
