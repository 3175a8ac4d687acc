"""Lines that hang, flood, fork and multiply: the feed stays small, and the others go on."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from feed_process import FeedProcess, until_lines
from peak_memory import ended_with_peak
from stoker_home import StokerHome, all_gone, pid_in
from waiting import eventually

MIB = 1024 * 1024


def test_a_line_that_prints_a_hundred_megabytes_is_only_another_line(reused: StokerHome) -> None:
    flood = "head -c 100000000 /dev/zero | tr '\\0' 'x'; echo; echo the end; exit 1"
    (reused.work / "c.txt").write_text(f"{flood}\ntrue\n")
    with FeedProcess(reused, "--on", "0", "c.txt") as feed:
        feed.process.returncode, peak = ended_with_peak(feed.process.pid)
    assert feed.process.returncode == 1
    assert peak < 80 * MIB
    assert "  the end\n" in feed.err
    assert len(feed.err) < 5000
    assert os.path.getsize(reused.job(reused.first_id)["log"]) > 100_000_000


def test_a_line_that_hangs_is_ended_by_its_time_limit_and_the_others_go_on(
    reused: StokerHome,
) -> None:
    (reused.work / "c.txt").write_text("sleep 999\necho a >> ran.txt\n")
    done = reused.cli("feed", "--on", "0", "--time-limit", "3s", "c.txt")
    assert done.code == 1
    assert "1 succeeded, 1 failed" in done.err
    assert "time limit" in done.err
    assert (reused.work / "ran.txt").read_text() == "a\n"


def test_a_line_that_hangs_holds_up_only_its_own_gpu(reused: StokerHome) -> None:
    with FeedProcess(reused, "--on", "0,1") as feed:
        feed.write("sleep 999", *["echo $CUDA_VISIBLE_DEVICES >> ran.txt"] * 20)
        assert len(set(until_lines(reused.work / "ran.txt", 20))) == 1


def test_a_child_in_the_background_does_not_outlive_its_line(reused: StokerHome) -> None:
    child = "sh -c 'echo $$ > child.pid; exec sleep 999' &"
    (reused.work / "c.txt").write_text(f"{child} until [ -s child.pid ]; do :; done\ntrue\n")
    done = reused.cli("feed", "--on", "0", "c.txt")
    assert done.code == 0, done
    pid = pid_in(reused.work / "child.pid")
    eventually(lambda: all_gone([pid]), "the child is gone")


def test_a_line_can_t_read_the_lines_that_follow_it(reused: StokerHome) -> None:
    done = reused.cli("feed", "--on", "0", stdin=b"cat > stolen.txt\necho mine >> ran.txt\n")
    assert done.code == 0
    assert (reused.work / "stolen.txt").read_text() == ""
    assert (reused.work / "ran.txt").read_text() == "mine\n"


def test_what_a_command_contains_can_t_play_tricks_on_the_terminal(reused: StokerHome) -> None:
    text = "echo '\x1b]0;title\x07\x1b[2J'; exit 1\n"
    done = reused.cli("feed", stdin=text.encode())
    assert done.code == 1
    assert "\x1b" not in done.err and "\x07" not in done.err


@pytest.fixture
def in_memory() -> Iterator[StokerHome]:
    """A Stoker whose state is in memory, where ten thousand jobs don't wait for a disk."""
    shm = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="stoker-", dir=shm if shm.is_dir() else None))
    stoker = StokerHome(root)
    try:
        stoker.start(gpus="0-3")
        yield stoker
    finally:
        stoker.clean_up()
        shutil.rmtree(root, ignore_errors=True)


def test_ten_thousand_lines_run_once_each_in_a_feed_that_stays_small(
    in_memory: StokerHome,
) -> None:
    count = 10_000
    lines = [f"echo {number} >> ran.txt" for number in range(count)]
    (in_memory.work / "c.txt").write_text("\n".join(lines))
    with FeedProcess(in_memory, "--on", "0-3", "c.txt") as feed:
        feed.process.returncode, peak = ended_with_peak(feed.process.pid)
    assert feed.process.returncode == 0, feed.err[-2000:]
    assert peak < 120 * MIB
    numbers = sorted(map(int, (in_memory.work / "ran.txt").read_text().split()))
    assert numbers == list(range(count))
    assert f"{count} succeeded, 0 failed" in feed.err[-200:]
