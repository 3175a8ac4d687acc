"""Ctrl-C while a command is still being loaded: it ends, and shows no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stoker_home import StokerHome
from waiting import PATIENCE_S

BIN = Path(__file__).parents[2] / "bin"
COMMANDS = {
    "stoker": ([str(BIN / "stoker"), "ls"], b"stoker/errors.py"),
    "module": (["-m", "stoker", "ls"], b"stoker/errors.py"),
    "simple_gpu_scheduler": (
        [str(BIN / "simple_gpu_scheduler"), "--gpus", "0"], b"stoker/api/client.py",
    ),
    "simple_hypersearch": (
        [str(BIN / "simple_hypersearch"), "x {a}", "-p", "a", "1"], b"argparse",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_interrupted_while_it_loads_ends_quietly(
    home: StokerHome, name: str
) -> None:
    words, sign = COMMANDS[name]
    # With -v the interpreter tells of each module that it has found.
    process = subprocess.Popen(
        [sys.executable, "-v", *words],
        env=home.env,
        cwd=home.work,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    told = b""
    while sign not in told:
        piece = os.read(process.stderr.fileno(), 65536)
        assert piece, "it has ended"
        told += piece
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=PATIENCE_S)
    assert b"Traceback" not in told + rest and b"KeyboardInterrupt" not in told + rest
    assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT, 0)


def test_a_gpu_that_does_not_exist_is_named_once(stoker: StokerHome) -> None:
    refused = stoker.cli("add", "--on", "7", "--prefer", "7", "--", "true")
    assert refused.code == 2 and "there is no GPU 7;" in refused.err
