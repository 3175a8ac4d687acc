"""Every option of `add`, as the job itself sees it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from stoker_home import StokerHome, lines_of
from waiting import eventually


@pytest.fixture
def stoker(lent: StokerHome) -> StokerHome:
    """It need not be a new one."""
    return lent


def ran(stoker: StokerHome, *words: str) -> str:
    """What a job printed that was added with these words."""
    job = stoker.add(*words)
    ended = stoker.until_final(job)[0]
    assert ended["state"] == "succeeded", ended
    return stoker.log_of(job)


GPUS = ("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES/$STOKER_GPUS/$CUDA_DEVICE_ORDER")


def test_gpus_are_given_and_none_where_none_are_wanted(stoker: StokerHome) -> None:
    assert ran(stoker, "--gpus", "2", *GPUS) == "0,1/0,1/PCI_BUS_ID\n"
    assert ran(stoker, "--gpus", "0", *GPUS) == "//PCI_BUS_ID\n"
    assert ran(stoker, *GPUS) == "0/0/PCI_BUS_ID\n"


def test_on_and_prefer_choose_among_the_gpus(stoker: StokerHome) -> None:
    assert ran(stoker, "--on", "2,3", *GPUS).startswith("2/")
    assert ran(stoker, "--prefer", "3,2", "--gpus", "2", *GPUS).startswith("3,2/")


def test_shares_of_a_gpu_add_up_to_one(stoker: StokerHome) -> None:
    stoker.call("config_set", name="gpus", value="0")
    ids = [stoker.add("--gpus", "0.5", "--", "sleep", "600") for _ in range(3)]
    for job_id in ids[:2]:
        stoker.until_state(job_id, "running")
    assert stoker.job(ids[2])["reason"] == "needs 0.5 of a GPU, most room is 0 on GPU 0"
    assert stoker.call("gpus")["gpus"][0]["state"] == "shared"


def test_memory_reservations_share_a_gpu_as_long_as_they_fit(home: StokerHome) -> None:
    home.start(gpus="0:24G,1:10G")
    big = home.add("--mem", "20G", "--", "sleep", "600")
    small = home.add("--mem", "4G", "--", "sleep", "600")
    tight = home.add("--mem", "8G", "--", "sleep", "600")
    late = home.add("--mem", "3G", "--", "sleep", "600")
    for job_id in (big, small, tight):
        home.until_state(job_id, "running")
    assert [home.job(i)["gpus"] for i in (big, small, tight)] == [["0"], ["0"], ["1"]]
    assert "3.0 GiB" in home.job(late)["reason"]


def test_an_exclusive_job_shares_with_nobody(home: StokerHome) -> None:
    home.start(gpus="0:24G")
    alone = home.add("--mem", "2G", "--exclusive", "--", "sleep", "600")
    other = home.add("--mem", "2G", "--", "true")
    home.until_state(alone, "running")
    assert home.job(other)["state"] == "waiting"


def test_cpu_slots_are_counted_and_cpu_jobs_do_not_wait_for_gpus(stoker: StokerHome) -> None:
    stoker.call("config_set", name="cpus", value="3")
    stoker.submit("sleep", "600", gpus=4)
    stoker.submit("sleep", "600", gpus=1)
    first = stoker.add("--gpus", "0", "--cpus", "2", "--", "sleep", "600")
    stoker.until_state(first, "running")
    second = stoker.add("--gpus", "0", "--cpus", "2", "--", "true")
    assert stoker.job(second)["reason"] == "needs 2 CPU slots, 1 of 3 free"
    third = stoker.add("--gpus", "0", "--", "true")
    assert stoker.job(third)["state"] in ("waiting", "running", "succeeded")


def test_after_waits_for_success_and_skips_otherwise(stoker: StokerHome) -> None:
    go = stoker.work / "go"
    wait = f"until [ -e {go} ]; do sleep 0.02; done; "
    good = stoker.add("--", wait + "exit 0")
    bad = stoker.add("--", wait + "exit 1")
    both = stoker.add("--after", f"{good},{bad}", "--", "true")
    one = stoker.add("--after", str(good), "--", "true")
    ended = stoker.add("--after-any", f"{good}-{bad}", "--", "true")
    chained = stoker.add("--after", str(both), "--", "true")
    assert "waits for jobs" in stoker.job(both)["reason"]
    go.touch()
    jobs = stoker.until_final(both, one, ended, chained)
    assert [job["state"] for job in jobs] == ["skipped", "succeeded", "succeeded", "skipped"]
    assert jobs[0]["reason"] == f"job {bad}, which it needs, ended as failed"
    assert jobs[3]["reason"] == f"job {both}, which it needs, ended as skipped"
    late = stoker.add("--after", str(bad), "--", "true")
    assert stoker.until_final(late)[0]["state"] == "skipped"
    last = stoker.add("--after-any", "last", "--", "true")
    assert stoker.until_final(last)[0]["state"] == "succeeded"


def test_at_waits_for_its_time(stoker: StokerHome) -> None:
    soon = stoker.add("--at", "+1s", "--", "true")
    later = stoker.add("--at", "+2h", "--", "true")
    view = stoker.job(later)
    assert view["state"] == "waiting" and view["reason"].startswith("starts in ")
    ended = stoker.until_final(soon)[0]
    assert ended["started_at_ms"] >= ended["not_before_ms"]
    assert stoker.job(later)["state"] == "waiting"


def test_time_limit_signal_and_grace_are_kept(stoker: StokerHome) -> None:
    script = "trap 'echo warned' USR1; trap 'echo asked' TERM; while :; do sleep 0.02; done"
    job = stoker.add("--time-limit", "3s", "--signal", "USR1@1500ms", "--grace", "1500ms", "--",
                     "sh", "-c", script)  # fmt: skip
    ended = stoker.until_final(job)[0]
    assert (ended["state"], ended["reason"], ended["signal"]) == ("failed", "time limit", 9)
    # The shell may remark on the end of the `sleep` that it waited for, too.
    said = [line for line in stoker.log_of(job).splitlines() if line in ("warned", "asked")]
    assert said == ["warned", "asked"]


def test_retries_come_with_back_off(stoker: StokerHome) -> None:
    ran_at = stoker.work / "ran"
    job = stoker.add("--retries", "2", "--", "sh", "-c", f"date +%s%N >> {ran_at}; exit 5")
    eventually(lambda: "tries again in" in (stoker.job(job)["reason"] or ""), "it waits to retry")
    ended = stoker.until_final(job)[0]
    assert (ended["state"], ended["exit_code"], ended["attempt"]) == ("failed", 5, 3)
    moments = [int(line) / 1e9 for line in lines_of(ran_at)]
    assert len(moments) == 3
    assert moments[1] - moments[0] >= 0.95 and moments[2] - moments[1] >= 1.95


def test_a_job_that_succeeds_is_not_retried(stoker: StokerHome) -> None:
    job = stoker.add("--retries", "3", "--", "true")
    assert stoker.until_final(job)[0]["attempt"] == 1


def test_directory_and_environment_are_those_of_the_submission(stoker: StokerHome) -> None:
    there = stoker.work / "sub dir"
    there.mkdir()
    script = ("--", "sh", "-c", "pwd; echo $A-$B")
    job = int(stoker.cli("add", "--env", "A=1", "--env", "B=x y", *script, cwd=there).out)
    stoker.until_final(job)
    assert stoker.log_of(job) == f"{there}\n1-x y\n"
    assert ran(stoker, "--cwd", "sub dir", *script) == f"{there}\n-\n"
    assert ran(stoker, "--cwd", "/", *script) == "/\n-\n"


def test_out_and_err_are_files_of_the_users_choice(stoker: StokerHome) -> None:
    both = ("--", "sh", "-c", "echo out; echo err >&2")
    stoker.until_final(stoker.add("--out", "o", "--err", "e", *both))
    assert (stoker.work / "o").read_text() == "out\n"
    assert (stoker.work / "e").read_text() == "err\n"
    stoker.until_final(stoker.add("--out", "together", *both))
    assert (stoker.work / "together").read_text() == "out\nerr\n"
    job = stoker.add("--err", "e2", *both)
    stoker.until_final(job)
    assert stoker.log_of(job) == "out\n" and (stoker.work / "e2").read_text() == "err\n"
    assert stoker.stoker("logs", "--err", str(job)) == "err\n"


def test_nice_is_added_to_the_niceness_of_the_daemon(stoker: StokerHome) -> None:
    usual = int(ran(stoker, "--", "nice"))
    assert int(ran(stoker, "--nice", "3", "--", "nice")) == min(19, usual + 3)
    held = stoker.add("--nice", "3", "--hold", "--", "nice; exit 0")
    assert stoker.job(held)["options"] == {"nice": 3}
    assert "  nice        3\n" in stoker.stoker("show", str(held))
    stoker.stoker("edit", str(held), "--nice", "5")
    stoker.stoker("edit", str(held), "--name", "nicer")
    stoker.stoker("release", str(held))
    assert stoker.until_final(held)[0]["state"] == "succeeded"
    assert int(stoker.log_of(held)) == min(19, usual + 5)
    plain = stoker.add("--nice", "3", "--hold", "--", "nice")
    stoker.stoker("edit", str(plain), "--nice", "none")
    assert stoker.job(plain)["options"] == {}


def test_gpu_arg_appends_the_ids(stoker: StokerHome) -> None:
    assert ran(stoker, "--gpus", "2", "--gpu-arg", "--", "echo", "x") == "x --gpu 0 1\n"


def test_one_word_is_for_the_login_shell_and_several_are_run_as_they_are(
    stoker: StokerHome,
) -> None:
    assert ran(stoker, "--", "echo $((1+2)) > /dev/stdout; echo $0") == "3\n/bin/sh\n"
    assert ran(stoker, "--", "echo", "$HOME", "*", "a  b") == "$HOME * a  b\n"
    stoker.env["SHELL"] = "/bin/bash"
    assert ran(stoker, "--", "echo ${BASH_VERSION:+bash}") == "bash\n"


def test_names_may_be_of_any_script(stoker: StokerHome) -> None:
    job = stoker.add("--name", "größe 日本 🔥", "--group", "ünï", "--", "echo", "naïve 日本")
    stoker.until_final(job)
    assert stoker.job(job)["name"] == "größe 日本 🔥"
    assert stoker.log_of(job) == "naïve 日本\n"
    assert "größe 日本 🔥" in stoker.stoker("ls", "--name", "größe*")


def test_a_job_that_can_not_be_started_later_is_failed_with_the_reason(
    stoker: StokerHome,
) -> None:
    there = stoker.work / "gone"
    there.mkdir()
    program = there / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    stoker.call("pause")
    job = stoker.add("--cwd", str(there), "--", "./tool", "x")
    program.unlink()
    there.rmdir()
    stoker.call("resume")
    ended = stoker.until_final(job)[0]
    assert ended["state"] == "failed"
    assert ended["reason"] == f"could not start: {there}: No such file or directory"
    assert stoker.until_final(stoker.submit("true"))[0]["state"] == "succeeded"


def test_a_huge_environment_reaches_the_job(stoker: StokerHome) -> None:
    env = {f"BIG_{n}": "x" * 100_000 for n in range(8)}
    job = int(stoker.cli("add", "--", "sh", "-c", "echo ${#BIG_7}", env=env).out)
    stoker.until_final(job)
    assert stoker.log_of(job) == "100000\n"


def test_jobs_know_who_they_are(stoker: StokerHome) -> None:
    told = ran(stoker, "--", "sh", "-c", "echo $STOKER_JOB_ID.$STOKER_ATTEMPT")
    assert told == f"{stoker.first_id}.1\n"


def test_a_job_may_queue_jobs_of_its_own(stoker: StokerHome) -> None:
    job = stoker.add("--gpus", "1", "--", *stoker.command("add", "--", "printenv", "STOKER_JOB_ID"))
    stoker.until_final(job)
    inner = int(stoker.log_of(job))
    stoker.until_final(inner)
    assert stoker.log_of(inner) == f"{inner}\n"


def test_times_are_in_order_and_about_now(stoker: StokerHome) -> None:
    before = time.time() * 1000
    job = stoker.add("--", "true")
    ended = stoker.until_final(job)[0]
    after = time.time() * 1000
    moments = [ended["submitted_at_ms"], ended["started_at_ms"], ended["ended_at_ms"]]
    assert moments == sorted(moments)
    assert before - 1000 <= moments[0] and moments[-1] <= after + 1000
    assert Path(ended["log"]).is_relative_to(stoker.home.root)
    assert os.path.isabs(ended["log"])
