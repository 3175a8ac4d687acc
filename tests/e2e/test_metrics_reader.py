"""The reader of metrics beside a real daemon: while jobs run, after kills, without their logs."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import StokerError
from stoker.metrics.asking import curves_of, metrics_of
from stoker.metrics.attempt import read_attempt
from stoker.metrics.spec import Spec
from stoker_home import (
    StokerHome,
    all_gone,
    command_line_of,
    is_running,
    kill_and_wait,
    processes_with,
)
from waiting import eventually

# It prints as a training does, in odd pieces, until the test says that it may end.
TRAINING = r"""
import os, sys, time
step = 0
while not os.path.exists(sys.argv[1]):
    for _ in range(300):
        step += 1
        os.write(1, b"step %d loss=%.4f" % (step, 1 / step))
        os.write(1, b" acc: %d\r" % (step % 7) if step % 3 else b"\n")
    os.write(1, b"Epoch %d, the end was at %d\n" % (step, step))
    time.sleep(0.01)
os.write(1, b"step %d loss=" % (step + 1))
os.write(1, b"nan")
"""
OWN = r"end=the end was at (\S+)"


def readers(stoker: StokerHome) -> list[int]:
    home = f"STOKER_HOME={stoker.home.root}".encode()
    found = [
        pid for pid in processes_with(home) if b"stoker.metrics.reader" in command_line_of(pid)
    ]
    return [pid for pid in found if is_running(pid)]


def reader(stoker: StokerHome) -> int:
    return eventually(lambda: next(iter(readers(stoker)), None), "a reader runs") or 0


def training(stoker: StokerHome, *options: str) -> tuple[int, Path]:
    """A job that prints until the file is there."""
    script, end = stoker.work / "train.py", stoker.work / "end"
    script.write_text(TRAINING)
    words = ["--gpus", "0", *options, "--", sys.executable, str(script), str(end)]
    return stoker.add(*words), end


def count(stoker: StokerHome, job_id: int, name: str = "loss") -> int:
    """How many points are kept, without a question to the daemon."""
    path = Path(stoker.home.root, "metrics.db")
    if not path.exists():
        return 0
    connection = sqlite3.connect(path)
    try:
        query = "SELECT count FROM series WHERE job = ? AND name = ?"
        row = connection.execute(query, (job_id, name)).fetchone()
    except sqlite3.OperationalError:
        return 0  # It has no tables yet.
    finally:
        connection.close()
    return 0 if row is None else int(row[0])


def until_more(stoker: StokerHome, job_id: int) -> None:
    before = count(stoker, job_id)
    eventually(lambda: count(stoker, job_id) > before, "more is read")


def kept(stoker: StokerHome, job_id: int) -> dict[str, Any]:
    """What the daemon tells, for comparison."""
    return {
        one.summary.name: repr((one.summary.count, one.summary.last, one.first, one.points))
        for one in curves_of(stoker.call, job_id)
    }


def in_log(stoker: StokerHome, job_id: int, *patterns: str) -> dict[str, Any]:
    """The same of the whole log, read here."""
    log = str(stoker.job(job_id)["log"])
    found = read_attempt(Spec(job_id, 1, log=log, patterns=patterns))
    return {
        name: repr((one.count, one.last[1] if one.last else None, one.first, one.curve()))
        for name, one in found.items()
    }


def test_a_job_that_asks_for_it_is_read_while_it_runs(stoker: StokerHome) -> None:
    job_id, end = training(stoker, "--metric", OWN)
    until_more(stoker, job_id)
    until_more(stoker, job_id)
    [row] = metrics_of(stoker.call, {"ids": [str(job_id)]}, ["end"])
    assert row.count > 0 and row.attempt == 1
    end.touch()
    stoker.until_final(job_id)
    found = in_log(stoker, job_id, OWN)
    assert set(found) == {"loss", "acc", "end"} and "nan" in found["loss"]
    assert kept(stoker, job_id) == found


def test_no_reader_is_started_for_a_job_that_does_not_ask_until_a_user_does(
    stoker: StokerHome,
) -> None:
    job_id, end = training(stoker)
    stoker.until_pid(job_id)
    done = stoker.add("--gpus", "0", "--", "sh", "-c", "sleep 1.5; echo loss=1")
    stoker.until_final(done)
    assert readers(stoker) == [] and count(stoker, job_id) == 0
    assert metrics_of(stoker.call, {"ids": [str(job_id)]}, ["loss"])[0].count > 0
    until_more(stoker, job_id)  # From now on it is followed.
    end.touch()
    stoker.until_final(job_id)
    assert kept(stoker, job_id) == in_log(stoker, job_id)


@pytest.mark.parametrize("killed", ["reader", "daemon", "both"])
def test_kills_at_any_moment_change_no_series(stoker: StokerHome, killed: str) -> None:
    chance = random.Random(killed)
    job_id, end = training(stoker, "--metric", OWN)
    for _ in range(4):
        until_more(stoker, job_id)
        victims = [reader(stoker)] if killed != "daemon" else []
        victims += [stoker.daemon_pid()] if killed != "reader" else []
        chance.shuffle(victims)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        for pid in victims:
            eventually(partial(all_gone, [pid]), "it is gone")
        if killed != "reader":
            stoker.start()
    until_more(stoker, job_id)
    if killed == "both":  # The end itself is seen by no reader.
        kill_and_wait(reader(stoker), signal.SIGKILL)
    end.touch()
    stoker.until_final(job_id)
    assert kept(stoker, job_id) == in_log(stoker, job_id, OWN)


def test_the_points_of_a_sweep_are_read_without_being_asked_for(stoker: StokerHome) -> None:
    done = stoker.cli("sweep", "--gpus", "0", "-p", "x", "1", "2", "--",
                      "sh", "-c", "echo step {x} loss=0.{x}; sleep 0.1")  # fmt: skip
    assert done.code == 0, done.err
    eventually(lambda: count(stoker, 1) == count(stoker, 2) == 1, "both are read")


def test_metrics_outlive_the_log_and_go_with_the_job(stoker: StokerHome) -> None:
    script = "echo step $STOKER_ATTEMPT loss=$STOKER_ATTEMPT; [ $STOKER_ATTEMPT = 2 ]"
    job_id = stoker.add("--gpus", "0", "--retries", "1", "--", "sh", "-c", script)
    stoker.until_final(job_id)
    log = Path(str(stoker.job(job_id)["log"]))
    assert stoker.cli("config", "set", "keep-logs", "1ms").code == 0
    eventually(lambda: not log.exists(), "its log is deleted")
    [row] = metrics_of(stoker.call, {"ids": [str(job_id)]})
    assert (row.attempt, row.last) == (2, 2)
    assert curves_of(stoker.call, job_id, 1)[0].points == [(1, 1)]
    assert stoker.cli("rm", str(job_id)).code == 0
    eventually(lambda: count(stoker, job_id) == 0, "its series are gone")


def test_series_are_there_after_a_restart_and_what_ended_meanwhile_is_read(
    stoker: StokerHome,
) -> None:
    job_id, end = training(stoker, "--metric", OWN)
    until_more(stoker, job_id)
    stoker.kill_daemon()
    eventually(lambda: not readers(stoker), "the reader ends with its daemon")
    end.touch()
    stoker.start()
    stoker.until_final(job_id)
    assert kept(stoker, job_id) == in_log(stoker, job_id, OWN)
    assert "end" in kept(stoker, job_id)


def test_files_and_reports_are_read_while_the_job_runs(stoker: StokerHome) -> None:
    script = (
        "mkdir -p runs/mine; printf 'step,acc\\n1,0.5\\n' > runs/mine/metrics.csv; "
        f"{sys.executable} -m stoker report step=7 loss=0.25; "
        "while ! [ -e end ]; do sleep 0.05; done; printf '2,0.75\\n' >> runs/mine/metrics.csv"
    )
    words = ("--name", "mine", "--metrics-from", "runs/{name}", "--", "sh", "-c", script)
    job_id = stoker.add("--gpus", "0", *words)
    eventually(lambda: count(stoker, job_id, "acc") and count(stoker, job_id), "both are read")
    (stoker.work / "end").touch()
    stoker.until_final(job_id)
    found = {one.summary.name: one.points for one in curves_of(stoker.call, job_id)}
    assert found == {"acc": [(1, 0.5), (2, 0.75)], "loss": [(7, 0.25)]}


def test_an_expression_that_can_not_be_one_is_refused_everywhere(stoker: StokerHome) -> None:
    for said in ("loss", "loss=", "=x(.)", "loss=(", "loss=no group", "x=" + "(a)" * 999):
        refused = stoker.cli("add", "--metric", said, "--", "true")
        assert refused.code == 2 and "metric" in refused.err, said
        with pytest.raises(Exception, match="metric"):
            stoker.submit("true", metric=[said])
    job_id = stoker.add("--gpus", "0", "--hold", "--metric", "a=(.)", "--", "true")
    assert stoker.cli("edit", str(job_id), "--metric", "b=(").code == 2
    assert stoker.cli("edit", str(job_id), "--metric", "b=(.)", "--metric", "c=(.)").code == 0
    assert stoker.job(job_id)["options"]["metric"] == ["b=(.)", "c=(.)"]
    assert stoker.cli("edit", str(job_id), "--metric", "none").code == 0
    assert "metric" not in stoker.job(job_id)["options"]


def test_an_expression_that_takes_for_ever_hangs_nothing(stoker: StokerHome) -> None:
    job_id, end = training(stoker, "--metric", r"slow=(x+x+)+(\d)", "--metric", OWN)
    bad = stoker.add("--gpus", "0", "--metric", r"slow=(x+x+)+(\d)", "--",
                     "sh", "-c", f"echo loss=4; echo {'x' * 60}!")  # fmt: skip
    stoker.until_final(bad)
    shown = stoker.cli("metrics", str(bad))
    assert shown.code == 0 and "loss" in shown.out
    assert "takes more than 2 s" in shown.err
    until_more(stoker, job_id)
    end.touch()
    stoker.until_final(job_id)


def test_a_hostile_log_does_no_harm(stoker: StokerHome) -> None:
    lines = [
        'head -c 3000000 /dev/urandom', r'''printf '\n"__proto__": 3\n"constructor": nan\n' ''',
        r"printf 'loss=1\033]0;evil\007\n<script>x</script>=4\n'", "truncate -s 1G $LOG",
        "printf '\\nstep 9 loss=2\\n' >> $LOG",
    ]  # fmt: skip
    script = "LOG=$(readlink /proc/self/fd/1); LOG=$(readlink /proc/$$/fd/1);" + "; ".join(lines)
    job_id = stoker.add("--gpus", "0", "--metric", OWN, "--", "sh", "-c", script)
    stoker.until_final(job_id)
    found = json.loads(stoker.cli("metrics", str(job_id), "--json").out)["metrics"]
    by_name = {one["metric"]: one for one in found}
    assert by_name["__proto__"]["last"][1] == 3 and by_name["constructor"]["last"][1] == "nan"
    assert by_name["loss"]["last"] == [9, 2]
    assert "\x1b" not in stoker.cli("metrics", str(job_id)).out


def test_a_damaged_database_is_replaced_and_logs_are_read_again(stoker: StokerHome) -> None:
    job_id = stoker.add("--gpus", "0", "--", "sh", "-c", "echo step 1 loss=3")
    stoker.until_final(job_id)
    Path(stoker.home.root, "metrics.db").write_bytes(b"no database " * 1000)

    def is_answered() -> bool:
        try:
            return len(metrics_of(stoker.call, {"ids": [str(job_id)]})) == 1
        except StokerError:
            return False  # It says that the file can't be read.

    eventually(is_answered, "the log is read into a new one")
    assert Path(stoker.home.root, "metrics.db.damaged").exists()


def test_an_attempt_that_never_was_has_no_metrics(stoker: StokerHome) -> None:
    job_id = stoker.add("--gpus", "0", "--", "sh", "-c", "echo step 1 loss=3")
    stoker.until_final(job_id)
    assert curves_of(stoker.call, job_id, 2) == []
    assert len(curves_of(stoker.call, job_id, 1)) == 1
    with pytest.raises(StokerError, match="there is no job"):
        curves_of(stoker.call, job_id + 1)
