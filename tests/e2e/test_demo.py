"""`stoker demo`, from the first line to the last, and to an early end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from small_disk import SmallDisk, disk
from stoker.cli.demo.tour import most_at_once
from stoker_home import SRC, command_line_of, processes_with
from terminals import Terminal
from waiting import PATIENCE_S, eventually

__all__ = ["disk"]

DEMO = [sys.executable, "-m", "stoker", "demo", "--fast"]
KILLED = b"go on without it"
PASSED = "11 jobs, each of which ran exactly once and succeeded"


class Visitor:
    """Somebody with a home of their own, and nothing in it yet."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.temporary = root / "tmp"
        self.temporary.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "STOKER_HOME": str(root / "own"),
            "TMPDIR": str(self.temporary),
            "LANG": "C.UTF-8",
            "PYTHONPATH": SRC,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def terminal(self) -> Terminal:
        return Terminal(DEMO, self.env, self.root)

    def run(self, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            DEMO, env=self.env | env, cwd=self.root, capture_output=True, text=True,
            timeout=PATIENCE_S * 2,
        )  # fmt: skip

    def processes(self) -> list[int]:
        return processes_with(f"TMPDIR={self.temporary}".encode())

    def points(self) -> list[int]:
        """The processes of the sweep's points that run now."""
        return [pid for pid in self.processes() if b"0.3" in command_line_of(pid)]

    def has_nothing_left(self) -> bool:
        assert not (self.root / "own").exists()
        return not self.processes() and os.listdir(self.temporary) == []


@pytest.fixture
def visitor(tmp_path: Path) -> Iterator[Visitor]:
    visitor = Visitor(tmp_path)
    yield visitor
    for pid in visitor.processes():
        os.kill(pid, signal.SIGKILL)


def test_two_demos_at_once_each_show_all_and_leave_nothing(visitor: Visitor) -> None:
    with visitor.terminal() as terminal:
        piped = visitor.run()
        assert terminal.wait() == 0, terminal.screen
    assert piped.returncode == 0, piped.stdout + piped.stderr
    seen = re.sub(r"\x1b\[[0-9;]*[mK]", "", terminal.screen.decode())
    assert "\x1b[" in terminal.screen.decode() and "\x1b" not in piped.stdout + piped.stderr
    for text in (seen, piped.stdout):
        assert re.search(r"1 +7\.0G .* python train\.py --lr --bs", text), "its memory was measured"
        assert len(re.findall(r"shared +90% +21\.0G", text)) == 2, "and three share each GPU"
        assert re.search(r"job 11 is waiting: needs 2 GPUs.*should start in about \d", text)
        assert KILLED.decode() in text
        assert re.search(r"^ *10 +succeeded +0\.03 +64 .* 0\s*$", text, re.MULTILINE)
        assert len(re.findall(r"^ *\d+ +loss +8 ", text, re.MULTILINE)) == 9
        assert "The best point is lr=0.1, bs=32: job 6, loss 0.201." in text
        assert PASSED in text
        assert len(text.partition("Try next")[2].split("stoker ")[1:]) == 3
    assert visitor.has_nothing_left()


@pytest.mark.parametrize("moment", [b"Stoker in under a minute", b"epoch 1", KILLED])
def test_ctrl_c_at_any_moment_leaves_nothing(visitor: Visitor, moment: bytes) -> None:
    plain = visitor.env | {"NO_COLOR": "1"}
    with Terminal(DEMO, plain, visitor.root) as terminal:
        terminal.until(moment)
        terminal.type(b"\x03")
        assert terminal.wait() == 130
    assert terminal.screen.decode().endswith("the demo was interrupted, and has cleaned up\r\n")
    assert "Traceback" not in terminal.screen.decode()
    assert visitor.has_nothing_left()


def test_a_terminal_that_is_closed_leaves_nothing(visitor: Visitor) -> None:
    with visitor.terminal() as terminal:
        terminal.until(b"epoch 1")
        terminal.hang_up()
        assert terminal.wait() != 0
    assert visitor.has_nothing_left()


def test_a_reader_that_leaves_early_ends_the_demo(visitor: Visitor) -> None:
    with subprocess.Popen(DEMO, env=visitor.env, stdout=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        assert demo.stdout.readline()
        demo.stdout.close()
        assert demo.wait(PATIENCE_S) == 141
    assert visitor.has_nothing_left()


def test_a_disk_without_room_is_told_in_one_line(visitor: Visitor, disk: SmallDisk) -> None:
    ran = visitor.run(TMPDIR=str(disk.root))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert re.fullmatch(
        rf"stoker: {disk.root} has only \d+ MiB free, and the demo needs 64 MiB; "
        "set TMPDIR to a directory with room\n",
        ran.stderr,
    )
    assert os.listdir(disk.root) == []


def test_no_directory_for_temporary_files_is_told_in_one_line(visitor: Visitor) -> None:
    no_directory = "import tempfile; tempfile.tempdir = '/proc/nowhere'"
    code = f"{no_directory}; from stoker.cli.main import main; raise SystemExit(main(['demo']))"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=visitor.env, capture_output=True, text=True
    )
    assert ran.returncode == 1
    assert ran.stderr == (
        "stoker: no temporary directory can be made: No such file or directory; "
        "set TMPDIR to a directory with room\n"
    )


def test_trainings_on_two_gpus_at_once_share_none() -> None:
    def ran(gpu: str, *at_ms: int) -> dict[str, Any]:
        return {"gpus": [gpu], "started_at_ms": at_ms[0], "ended_at_ms": at_ms[1]}

    assert most_at_once([ran("0", 0, 9), ran("1", 0, 9), ran("0", 9, 12)]) == 1
    assert most_at_once([ran("0", 0, 9), ran("1", 0, 9), ran("0", 8, 12)]) == 2


def test_a_demo_in_which_a_training_was_lost_says_so_and_fails(visitor: Visitor) -> None:
    with subprocess.Popen(
        DEMO, env=visitor.env, cwd=visitor.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as demo:
        point = eventually(visitor.points, "a point of the sweep runs")[0]
        assert demo.stdout is not None
        while b"stoker why" not in demo.stdout.readline():
            pass
        os.kill(point, signal.SIGKILL)
        out, err = demo.communicate(timeout=PATIENCE_S * 2)
    assert demo.returncode == 1, out
    assert b"this did not hold: all 11 jobs succeeded\n" in err
    assert b"Try next" not in out
    assert visitor.has_nothing_left()
