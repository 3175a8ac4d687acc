"""A short stretch of the torture that `make torture` gives for as long as one likes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fakegpu.build import has_compiler
from stoker_home import SRC, processes_with
from waiting import PATIENCE_S, eventually

SECONDS = 45
TESTS = str(Path(__file__).parents[1])


def torture(*words: str, seconds: int = SECONDS) -> subprocess.Popen[str]:
    if not has_compiler():
        assert not os.environ.get("CI"), "the jobs of the torture are a program in C"
        pytest.skip("no C compiler: the jobs of the torture can't be built")
    return subprocess.Popen(
        [sys.executable, "-m", "crash.torture", "--seconds", str(seconds), *words],
        env=os.environ | {"PYTHONPATH": f"{TESTS}:{SRC}", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_all_laws_hold_whatever_is_done_to_stoker() -> None:
    process = torture("--seed", str(random.randrange(10**6)))
    text, _ = process.communicate()
    assert process.returncode == 0, text
    print(text)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_leaves_no_process_and_no_mount(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = torture("--seed", "7", seconds=600)
    mark = f"STOKER_HOME={tmp_path}/".encode()
    eventually(lambda: len(processes_with(mark, prefix=True)) > 5, "clients and jobs are there")
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert processes_with(mark, prefix=True) == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == []
