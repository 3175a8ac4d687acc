"""Logs of real jobs: their last lines at once whatever their size, collapsed, followed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from peak_memory import ended_with_peak
from stoker_home import StokerHome
from waiting import eventually

GIB = 1024**3


def test_the_last_lines_of_2_gb_are_shown_in_little_memory(
    stoker: StokerHome, tmp_path: Path
) -> None:
    job = stoker.submit("echo", "first")
    stoker.until_final(job)
    log = Path(stoker.job(job)["log"])
    os.truncate(log, 2 * GIB)
    with log.open("ab") as file:
        file.write(b"\n" + b"".join(b"line %d\n" % n for n in range(300)))
    before = peak_mib(stoker.daemon_pid())
    shown = tmp_path / "shown"
    with shown.open("wb") as file:
        client = stoker.popen("logs", "-n", "3", str(job), stdout=file)
    client.returncode, peak = ended_with_peak(client.pid)
    assert client.returncode == 0
    assert shown.read_bytes() == b"line 297\nline 298\nline 299\n"
    assert peak < GIB // 4, f"the client took {peak} bytes"
    assert peak_mib(stoker.daemon_pid()) - before < 20, "the daemon does not read it at all"


def peak_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) / 1024


def test_progress_bars_are_collapsed_and_raw_ones_are_not(reused: StokerHome) -> None:
    job = reused.submit("printf", r"start\n  0%%\r 50%%\r100%%\nend\n")
    reused.until_final(job)
    assert reused.stoker("logs", str(job)) == "start\n100%\nend\n"
    raw = subprocess.run(
        reused.command("logs", "--raw", str(job)), env=reused.env, capture_output=True
    )
    assert raw.stdout == b"start\n  0%\r 50%\r100%\nend\n"


def test_logs_are_followed_until_the_job_has_ended(reused: StokerHome) -> None:
    go = reused.work / "go"
    job = reused.submit("sh", "-c", f"echo one; until [ -e {go} ]; do sleep 0.02; done; echo two")
    follower = reused.popen("logs", "-f", str(job), stdout=subprocess.PIPE)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"one\n"
    go.touch()
    assert follower.stdout.read() == b"two\n"
    assert follower.wait(60) == 0


def test_following_starts_before_the_job_and_goes_on_over_its_attempts(
    reused: StokerHome,
) -> None:
    reused.call("pause")
    job = reused.submit("sh", "-c", "echo attempt $STOKER_ATTEMPT; exit 1", retries=1)
    follower = reused.popen("logs", "-f", str(job), stdout=-1, stderr=-1)
    reused.call("resume")
    out, err = follower.communicate(timeout=60)
    assert out == b"attempt 1\nattempt 2\n", err


def test_following_goes_on_though_the_daemon_is_killed(reused: StokerHome) -> None:
    go = reused.work / "go"
    job = reused.submit("sh", "-c", f"echo one; until [ -e {go} ]; do sleep 0.02; done; echo two")
    follower = reused.popen("logs", "-f", str(job), stdout=subprocess.PIPE, stderr=-3)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"one\n"
    reused.kill_daemon()
    go.touch()
    assert follower.stdout.readline() == b"two\n"
    reused.start()
    assert follower.wait(60) == 0


def test_a_follower_that_is_interrupted_leaves_the_job_alone(reused: StokerHome) -> None:
    job = reused.submit("sh", "-c", "echo one; exec sleep 600")
    follower = reused.popen("logs", "-f", str(job), stdout=subprocess.PIPE, stderr=-1)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"one\n"
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=60)
    assert follower.returncode == 130 and err == b""
    assert reused.job(job)["state"] == "running"


def test_the_newest_job_of_a_name_or_the_last_one_can_be_asked_for(reused: StokerHome) -> None:
    for text in ("a", "b"):
        reused.until_final(reused.submit("echo", text, name="same"))
    assert reused.stoker("logs", "last") == "b\n"
    assert reused.stoker("logs", "--name", "same") == "b\n"
    assert reused.stoker("logs", str(reused.first_id)) == "a\n"


def test_bytes_that_are_no_text_are_passed_through(reused: StokerHome) -> None:
    job = reused.submit("printf", r"\377\376\n")
    reused.until_final(job)
    done = subprocess.run(reused.command("logs", str(job)), env=reused.env, capture_output=True)
    assert done.stdout == b"\xff\xfe\n"


def test_a_job_that_fills_its_log_does_not_slow_the_daemon(stoker: StokerHome) -> None:
    job = stoker.submit("sh", "-c", "yes | head -c 200000000; exit 0")
    before = peak_mib(stoker.daemon_pid())
    assert stoker.until_final(job)[0]["state"] == "succeeded"
    assert eventually(lambda: Path(stoker.job(job)["log"]).stat().st_size) == 200_000_000
    assert peak_mib(stoker.daemon_pid()) - before < 20
    shown = stoker.cli("logs", str(job))
    assert shown.out == "y\n" * 200 and "--all" in shown.err


def test_of_a_job_that_never_started_logs_tells_why(reused: StokerHome) -> None:
    job = reused.submit("true", hold=True, out=str(reused.work / "out.txt"))
    assert "no log yet" in reused.cli("logs", str(job)).err
    reused.stoker("cancel", str(job))
    why = reused.until_final(job)[0]["reason"] or "cancelled"
    ran = reused.cli("logs", str(job))
    assert ran.code == 1
    assert f"job {job} has no log, because it never started: {why}" in ran.err


def test_a_log_that_was_removed_by_hand_is_told_to_be_gone(reused: StokerHome) -> None:
    job = reused.submit("echo", "a", out=str(reused.work / "out.txt"))
    reused.until_final(job)
    (reused.work / "out.txt").unlink()
    ran = reused.cli("logs", str(job))
    assert ran.code == 1 and f"the log {reused.work / 'out.txt'} is not there" in ran.err
