"""A test that hangs fails, with its name and its place; it never holds up the whole run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"

HANGS = """
import signal, time

def test_that_hangs():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        {}

def test_after_it():
    pass
"""
TAKES_NO_SIGNAL = """try:
            time.sleep(60)
        except BaseException:
            pass"""


def run(directory: Path, body: str, *options: str) -> subprocess.CompletedProcess[str]:
    file = directory / "test_of_a_hang.py"
    file.write_text(HANGS.format(body))
    pytest = [sys.executable, "-m", "pytest", "-c", str(PROJECT), "--rootdir", str(directory)]
    plugins = ["-p", "pytest_timeout", "-p", "xdist", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*pytest, *plugins, *options, str(file)],
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # All others only take time.
        capture_output=True,
        text=True,
    )


def test_every_test_has_a_limit() -> None:
    text = PROJECT.read_text(encoding="utf-8")
    assert "\ntimeout = " in text and "\nfaulthandler_exit_on_timeout = true" in text


def test_one_that_hangs_fails_with_its_name_and_where_it_hangs(tmp_path: Path) -> None:
    ran = run(tmp_path, "time.sleep(60)", "--timeout", "1")
    assert ran.returncode == 1
    assert "1 failed, 1 passed" in ran.stdout
    assert "test_that_hangs" in ran.stdout and "time.sleep(60)" in ran.stdout


def test_one_that_swallows_every_signal_ends_its_process_and_the_rest_is_run(
    tmp_path: Path,
) -> None:
    limits = ("--timeout", "1", "-o", "faulthandler_timeout=2")
    ran = run(tmp_path, TAKES_NO_SIGNAL, "-n", "1", *limits)
    assert ran.returncode == 1
    assert "1 failed, 1 passed" in ran.stdout
    assert "crashed while running" in ran.stdout and "test_that_hangs" in ran.stdout
    assert "in test_that_hangs" in ran.stderr, "the stacks are shown"
