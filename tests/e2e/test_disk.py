"""What takes room, and how what is old is deleted: by hand, or by itself."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import stoker as library
from stoker.errors import UsageError
from stoker_home import StokerHome
from waiting import eventually

DAY_MS = 86_400_000
MIB = 1024 * 1024


def ended_days_ago(stoker: StokerHome, *job_ids: int, days: int) -> None:
    """As if these jobs had ended so long ago."""
    stoker.stoker("daemon", "stop")
    at_ms = time.time_ns() // 1_000_000 - days * DAY_MS
    with closing(sqlite3.connect(stoker.home.database)) as database, database:
        for job_id in job_ids:
            database.execute("UPDATE jobs SET ended_at_ms = ? WHERE id = ?", (at_ms, job_id))
    stoker.start()


def three_jobs(stoker: StokerHome) -> tuple[int, int, int]:
    """Two that succeeded and failed long ago, and one that has just succeeded."""
    ok, bad = stoker.submit("echo", "ok"), stoker.submit("false")
    stoker.until_final(ok, bad)
    ended_days_ago(stoker, ok, bad, days=40)
    new = stoker.submit("echo", "new")
    stoker.until_final(new)
    return ok, bad, new


def test_rm_older_takes_only_what_ended_longer_ago(stoker: StokerHome) -> None:
    ok, bad, new = three_jobs(stoker)
    assert "nothing to do" in stoker.cli("rm", "--older", "41d").err
    assert f"removed: job {ok}" in stoker.cli("rm", "--older", "30d", "--state", "succeeded").err
    assert set(stoker.jobs()) == {bad, new}
    refused = stoker.cli("rm", "--older", "30")
    assert refused.code == 2 and refused.err.count("\n") == 1 and "30d or 30h?" in refused.err
    stoker.stoker("rm", "--older", "30d")
    assert set(stoker.jobs()) == {new}


def test_python_removes_what_is_older(stoker: StokerHome) -> None:
    ok, bad, new = three_jobs(stoker)
    with library.Client(stoker.home.root) as client:
        assert client.rm(new, older="30d") == []
        with pytest.raises(UsageError, match="30d or 30h"):
            client.rm(older=cast(Any, 30))
        assert client.rm(older=timedelta(days=30), state="failed") == [bad]
        assert client.rm(older="30d") == [ok]
    assert set(stoker.jobs()) == {new}


def test_keep_logs_deletes_old_logs_and_leaves_the_jobs_on_record(stoker: StokerHome) -> None:
    ok, bad, new = three_jobs(stoker)
    logs = {job_id: Path(stoker.job(job_id)["log"]) for job_id in (ok, bad, new)}
    assert all(log.exists() for log in logs.values())
    stoker.stoker("config", "set", "keep-logs", "30d")
    eventually(lambda: not logs[ok].exists() and not logs[bad].exists(), "they are deleted")
    assert logs[new].exists()
    assert set(stoker.jobs()) == {ok, bad, new}
    assert "keep-logs" in stoker.cli("logs", str(ok)).err


def test_keep_jobs_removes_more_old_jobs_than_one_pass_does(stoker: StokerHome) -> None:
    stoker.call("pause")
    old = stoker.submit_all([{"argv": ["true"]}], each=[{}] * 250)
    stoker.call("cancel", select={"all": True})
    ended_days_ago(stoker, *old, days=100)
    new = stoker.submit("true")
    stoker.call("cancel", select={"ids": [str(new)]})
    stoker.stoker("config", "set", "keep-jobs", "90d")
    eventually(lambda: set(stoker.jobs()) == {new}, "the old ones are removed")


def test_what_is_no_time_is_refused(stoker: StokerHome) -> None:
    for name in ("keep-jobs", "keep-logs", "keep-results"):
        refused = stoker.cli("config", "set", name, "soon")
        assert refused.code == 2 and refused.err.count("\n") == 1


def test_disk_shows_what_takes_room_the_largest_first(stoker: StokerHome) -> None:
    small = stoker.submit("echo", "hello", group="small")
    large = stoker.submit("head", "-c", "3M", "/dev/zero", group="large")
    stoker.until_final(small, large)
    told = json.loads(stoker.stoker("disk", "--json"))
    parts = {part["part"]: part["bytes"] for part in told["parts"]}
    assert parts["logs"] >= 3 * 1024 * 1024 and parts["database"] > 0
    assert parts["reserve"] == 4 * MIB, "it is named, and not one of the other files"
    assert parts["other files"] < 65_536
    assert list(parts.values()) == sorted(parts.values(), reverse=True)
    assert told["logs"][0] | {"bytes": 0} == {
        "group": "large", "state": "succeeded", "jobs": 1, "bytes": 0,
    }  # fmt: skip
    assert told["largest"][0]["id"] == large
    assert told["total_bytes"] == sum(parts.values())
    assert 0 <= told["disks"][0]["free_bytes"] <= told["disks"][0]["total_bytes"]
    shown = stoker.stoker("disk")
    assert "database" in shown and "large" in shown and f"job {large}" in shown
    assert "free on the disk of" in shown
    with library.Client(stoker.home.root) as client:
        assert client.disk()["largest"][0]["id"] == large


def test_a_job_with_max_log_keeps_head_and_tail_and_goes_on(stoker: StokerHome) -> None:
    end = stoker.work / "end"
    script = (
        f"echo first; head -c 20M /dev/urandom | base64; until [ -e {end} ]; do sleep 0.02; done"
    )
    job = stoker.add("--max-log", "2M", "--", "sh", "-c", f"{script}; echo last")
    path = Path(stoker.until_state(job, "running")["log"])
    eventually(lambda: path.stat().st_size > 27 * MIB, "it has written all")
    eventually(lambda: path.stat().st_blocks * 512 <= 2 * MIB, "its middle was left out")
    assert stoker.job(job)["state"] == "running"
    end.touch()
    assert stoker.until_final(job)[0]["state"] == "succeeded"
    shown = stoker.stoker("logs", "--all", str(job))
    assert shown.startswith("first\n") and shown.endswith("last\n") and "\0" not in shown
    assert shown.count("left out here: --max-log 2M]") == 1
    assert len(shown) <= 2 * MIB
    assert stoker.job(job)["options"]["max_log_mib"] == 2


def test_a_bound_for_a_log_that_is_not_there_is_refused(stoker: StokerHome) -> None:
    for words, what in (
        (("--max-log", "2M", "--out", "out.txt"), "--out"),
        (("--max-log", "2M", "--on-cluster"), ""),
        (("--max-log", "much"), "is not a size"),
        (("--max-log", "50K"), "'50K' is too little for a log; write 1M or more, or off"),
    ):
        refused = stoker.cli("add", *words, "--", "true")
        assert refused.code == 2 and refused.err.count("\n") == 1 and what in refused.err
    refused = stoker.cli("run", "--max-log", "2M", "--", "true")
    assert refused.code == 2 and "--max-log is for logs" in refused.err


LARGE = "echo first; head -c 9M /dev/urandom | base64; echo last"


def kept(path: Path) -> int:
    return path.stat().st_blocks * 512


def until_cut(path: Path, most_mib: int) -> None:
    eventually(lambda: kept(path) <= most_mib * MIB, f"{path} is cut")


def test_the_log_of_a_job_that_is_over_at_once_is_cut_too(stoker: StokerHome) -> None:
    job = stoker.add("--max-log", "2M", "--", "sh", "-c", LARGE)
    [ended] = stoker.until_final(job)
    eventually(lambda: kept(Path(ended["log"])) <= 2 * MIB, "its middle was left out")
    shown = stoker.stoker("logs", "--all", str(job))
    assert shown.startswith("first\n") and shown.endswith("last\n")
    assert shown.count("left out here") == 1


def test_the_file_of_err_has_the_same_bound_unless_it_was_there_before(stoker: StokerHome) -> None:
    new, old = stoker.work / "new-{id}.err", stoker.work / "old.err"
    old.write_text("mine\n")
    script = f"({LARGE}) >&2"
    capped = stoker.add("--max-log", "2M", "--err", str(new), "--", "sh", "-c", script)
    words = ("--max-log", "2M", "--err", str(old), "--append")
    appended = stoker.add(*words, "--", "sh", "-c", script)
    log = stoker.add("--max-log", "2M", "--", "sh", "-c", LARGE)
    stoker.until_final(capped, appended, log)
    eventually(lambda: kept(stoker.work / f"new-{capped}.err") <= 2 * MIB, "it was cut")
    eventually(lambda: kept(Path(stoker.job(log)["log"])) <= 2 * MIB, "and what came after it")
    assert kept(old) > 9 * MIB and old.read_bytes().startswith(b"mine\nfirst\n")


def test_the_setting_is_the_bound_of_jobs_without_one(stoker: StokerHome) -> None:
    refused = stoker.cli("config", "set", "max-log", "much")
    assert refused.code == 2 and "2G or off" in refused.err
    refused = stoker.cli("config", "set", "max-log", "0.5M")
    assert refused.code == 2 and "'0.5M' is too little for a log" in refused.err
    stoker.stoker("config", "set", "max-log", "2M")
    err, out = stoker.work / "x.err", stoker.work / "x.out"
    short = stoker.add("--err", str(err), "--", "sh", "-c", f"{LARGE}; ({LARGE}) >&2")
    own = stoker.add("--max-log", "4M", "--", "sh", "-c", LARGE)
    exempt = stoker.add("--max-log", "off", "--", "sh", "-c", LARGE)
    named = stoker.add("--out", str(out), "--", "sh", "-c", LARGE)
    for job, most in ((short, 2), (own, 4)):
        [ended] = stoker.until_final(job)
        until_cut(Path(ended["log"]), most)
    assert kept(Path(stoker.job(own)["log"])) > 2 * MIB
    stoker.until_final(exempt, named)
    last = stoker.add("--", "sh", "-c", LARGE)
    [ended] = stoker.until_final(last)
    until_cut(Path(ended["log"]), 2)
    assert kept(Path(stoker.job(exempt)["log"])) > 9 * MIB
    stoker.stoker("config", "set", "max-log", "off")
    whole = stoker.add("--", "sh", "-c", LARGE)
    bound = stoker.add("--max-log", "2M", "--", "sh", "-c", LARGE)
    stoker.until_final(whole, bound)
    eventually(lambda: kept(Path(stoker.job(bound)["log"])) <= 2 * MIB, "a pass has come")
    assert kept(err) > 9 * MIB and kept(out) > 9 * MIB
    assert kept(Path(stoker.job(whole)["log"])) > 9 * MIB


def test_the_bound_that_is_set_counts_for_jobs_that_run_already(stoker: StokerHome) -> None:
    end = stoker.work / "end"
    wait = f"until [ -e {end} ]; do sleep 0.02; done"
    job = stoker.add("--", "sh", "-c", f"{LARGE}; {wait}")
    path = Path(stoker.until_state(job, "running")["log"])
    eventually(lambda: path.stat().st_size > 9 * MIB, "it has written all")
    stoker.stoker("config", "set", "max-log", "2M")
    eventually(lambda: kept(path) <= 2 * MIB, "its middle was left out")
    end.touch()
    stoker.until_final(job)
