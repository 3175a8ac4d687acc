"""Every option of `add`, as the job itself sees it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from stoker_home import StokerHome, lines_of
from waiting import eventually


def ran(stoker: StokerHome, *words: str) -> str:
    """What a job printed that was added with these words."""
    job = stoker.add(*words)
    ended = stoker.until_final(job)[0]
    assert ended["state"] == "succeeded", ended
    return stoker.log_of(job)


GPUS = ("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES/$STOKER_GPUS/$CUDA_DEVICE_ORDER")


def test_gpus_are_given_and_none_where_none_are_wanted(reused: StokerHome) -> None:
    assert ran(reused, "--gpus", "2", *GPUS) == "0,1/0,1/PCI_BUS_ID\n"
    assert ran(reused, "--gpus", "0", *GPUS) == "//PCI_BUS_ID\n"
    assert ran(reused, *GPUS) == "0/0/PCI_BUS_ID\n"


def test_on_and_prefer_choose_among_the_gpus(reused: StokerHome) -> None:
    assert ran(reused, "--on", "2,3", *GPUS).startswith("2/")
    assert ran(reused, "--prefer", "3,2", "--gpus", "2", *GPUS).startswith("3,2/")


def test_shares_of_a_gpu_add_up_to_one(reused: StokerHome) -> None:
    reused.call("config_set", name="gpus", value="0")
    ids = [reused.add("--gpus", "0.5", "--", "sleep", "600") for _ in range(3)]
    for job_id in ids[:2]:
        reused.until_state(job_id, "running")
    assert reused.job(ids[2])["reason"] == "needs 0.5 of a GPU, most room is 0 on GPU 0"
    assert reused.call("gpus")["gpus"][0]["state"] == "shared"


def test_memory_reservations_share_a_gpu_as_long_as_they_fit(home: StokerHome) -> None:
    home.start(gpus="0:24G,1:10G")
    big = home.add("--mem", "20G", "--", "sleep", "600")
    small = home.add("--mem", "4G", "--on", "0", "--", "sleep", "600")
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


def test_cpu_slots_are_counted_and_cpu_jobs_do_not_wait_for_gpus(reused: StokerHome) -> None:
    reused.call("config_set", name="cpus", value="3")
    reused.submit("sleep", "600", gpus=4)
    reused.submit("sleep", "600", gpus=1)
    first = reused.add("--gpus", "0", "--cpus", "2", "--", "sleep", "600")
    reused.until_state(first, "running")
    second = reused.add("--gpus", "0", "--cpus", "2", "--", "true")
    assert reused.job(second)["reason"] == "needs 2 CPU slots, 1 of 3 free"
    third = reused.add("--gpus", "0", "--", "true")
    assert reused.job(third)["state"] in ("waiting", "running", "succeeded")


def test_after_waits_for_success_and_skips_otherwise(reused: StokerHome) -> None:
    go = reused.work / "go"
    wait = f"until [ -e {go} ]; do sleep 0.02; done; "
    good = reused.add("--", wait + "exit 0")
    bad = reused.add("--", wait + "exit 1")
    both = reused.add("--after", f"{good},{bad}", "--", "true")
    one = reused.add("--after", str(good), "--", "true")
    ended = reused.add("--after-any", f"{good}-{bad}", "--", "true")
    chained = reused.add("--after", str(both), "--", "true")
    assert "waits for jobs" in reused.job(both)["reason"]
    go.touch()
    jobs = reused.until_final(both, one, ended, chained)
    assert [job["state"] for job in jobs] == ["skipped", "succeeded", "succeeded", "skipped"]
    assert jobs[0]["reason"] == f"job {bad}, which it needs, ended as failed"
    assert jobs[3]["reason"] == f"job {both}, which it needs, ended as skipped"
    late = reused.add("--after", str(bad), "--", "true")
    assert reused.until_final(late)[0]["state"] == "skipped"
    last = reused.add("--after-any", "last", "--", "true")
    assert reused.until_final(last)[0]["state"] == "succeeded"


def test_at_waits_for_its_time(reused: StokerHome) -> None:
    soon = reused.add("--at", "+1s", "--", "true")
    later = reused.add("--at", "+2h", "--", "true")
    view = reused.job(later)
    assert view["state"] == "waiting" and view["reason"].startswith("starts in ")
    ended = reused.until_final(soon)[0]
    assert ended["started_at_ms"] >= ended["not_before_ms"]
    assert reused.job(later)["state"] == "waiting"


def test_time_limit_signal_and_grace_are_kept(reused: StokerHome) -> None:
    script = "trap 'echo warned' USR1; trap 'echo asked' TERM; while :; do sleep 0.02; done"
    job = reused.add("--time-limit", "3s", "--signal", "USR1@1500ms", "--grace", "1500ms", "--",
                     "sh", "-c", script)  # fmt: skip
    ended = reused.until_final(job)[0]
    assert (ended["state"], ended["reason"], ended["signal"]) == ("failed", "time limit", 9)
    # The shell may remark on the end of the `sleep` that it waited for, too.
    said = [line for line in reused.log_of(job).splitlines() if line in ("warned", "asked")]
    assert said == ["warned", "asked"]


def test_retries_come_with_back_off(reused: StokerHome) -> None:
    ran_at = reused.work / "ran"
    job = reused.add("--retries", "2", "--", "sh", "-c", f"date +%s%N >> {ran_at}; exit 5")
    eventually(lambda: "tries again in" in (reused.job(job)["reason"] or ""), "it waits to retry")
    ended = reused.until_final(job)[0]
    assert (ended["state"], ended["exit_code"], ended["attempt"]) == ("failed", 5, 3)
    moments = [int(line) / 1e9 for line in lines_of(ran_at)]
    assert len(moments) == 3
    assert moments[1] - moments[0] >= 0.95 and moments[2] - moments[1] >= 1.95


def test_a_job_that_succeeds_is_not_retried(reused: StokerHome) -> None:
    job = reused.add("--retries", "3", "--", "true")
    assert reused.until_final(job)[0]["attempt"] == 1


def test_directory_and_environment_are_those_of_the_submission(reused: StokerHome) -> None:
    there = reused.work / "sub dir"
    there.mkdir()
    script = ("--", "sh", "-c", "pwd; echo $A-$B")
    job = int(reused.cli("add", "--env", "A=1", "--env", "B=x y", *script, cwd=there).out)
    reused.until_final(job)
    assert reused.log_of(job) == f"{there}\n1-x y\n"
    assert ran(reused, "--cwd", "sub dir", *script) == f"{there}\n-\n"
    assert ran(reused, "--cwd", "/", *script) == "/\n-\n"


def test_out_and_err_are_files_of_the_users_choice(reused: StokerHome) -> None:
    both = ("--", "sh", "-c", "echo out; echo err >&2")
    reused.until_final(reused.add("--out", "o", "--err", "e", *both))
    assert (reused.work / "o").read_text() == "out\n"
    assert (reused.work / "e").read_text() == "err\n"
    reused.until_final(reused.add("--out", "together", *both))
    assert (reused.work / "together").read_text() == "out\nerr\n"
    job = reused.add("--err", "e2", *both)
    reused.until_final(job)
    assert reused.log_of(job) == "out\n" and (reused.work / "e2").read_text() == "err\n"
    assert reused.stoker("logs", "--err", str(job)) == "err\n"


def test_nice_is_added_to_the_niceness_of_the_daemon(reused: StokerHome) -> None:
    usual = int(ran(reused, "--", "nice"))
    assert int(ran(reused, "--nice", "3", "--", "nice")) == min(19, usual + 3)
    held = reused.add("--nice", "3", "--hold", "--", "nice; exit 0")
    assert reused.job(held)["options"] == {"nice": 3}
    assert "  nice        3\n" in reused.stoker("show", str(held))
    reused.stoker("edit", str(held), "--nice", "5")
    reused.stoker("edit", str(held), "--name", "nicer")
    reused.stoker("release", str(held))
    assert reused.until_final(held)[0]["state"] == "succeeded"
    assert int(reused.log_of(held)) == min(19, usual + 5)
    plain = reused.add("--nice", "3", "--hold", "--", "nice")
    reused.stoker("edit", str(plain), "--nice", "none")
    assert reused.job(plain)["options"] == {}


def test_gpu_arg_appends_the_ids(reused: StokerHome) -> None:
    assert ran(reused, "--gpus", "2", "--gpu-arg", "--", "echo", "x") == "x --gpu 0 1\n"


def test_one_word_is_for_the_login_shell_and_several_are_run_as_they_are(
    reused: StokerHome,
) -> None:
    assert ran(reused, "--", "echo $((1+2)) > /dev/stdout; echo $0") == "3\n/bin/sh\n"
    assert ran(reused, "--", "echo", "$HOME", "*", "a  b") == "$HOME * a  b\n"
    reused.env["SHELL"] = "/bin/bash"
    assert ran(reused, "--", "echo ${BASH_VERSION:+bash}") == "bash\n"


def test_names_may_be_of_any_script(reused: StokerHome) -> None:
    job = reused.add("--name", "größe 日本 🔥", "--group", "ünï", "--", "echo", "naïve 日本")
    reused.until_final(job)
    assert reused.job(job)["name"] == "größe 日本 🔥"
    assert reused.log_of(job) == "naïve 日本\n"
    assert "größe 日本 🔥" in reused.stoker("ls", "--name", "größe*")


def test_a_job_that_can_not_be_started_later_is_failed_with_the_reason(
    reused: StokerHome,
) -> None:
    there = reused.work / "gone"
    there.mkdir()
    program = there / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    reused.call("pause")
    job = reused.add("--cwd", str(there), "--", "./tool", "x")
    program.unlink()
    there.rmdir()
    reused.call("resume")
    ended = reused.until_final(job)[0]
    assert ended["state"] == "failed"
    assert ended["reason"] == f"could not start: {there}: No such file or directory"
    assert reused.until_final(reused.submit("true"))[0]["state"] == "succeeded"


def test_a_huge_environment_reaches_the_job(reused: StokerHome) -> None:
    env = {f"BIG_{n}": "x" * 100_000 for n in range(8)}
    job = int(reused.cli("add", "--", "sh", "-c", "echo ${#BIG_7}", env=env).out)
    reused.until_final(job)
    assert reused.log_of(job) == "100000\n"


def test_jobs_know_who_they_are(reused: StokerHome) -> None:
    told = ran(reused, "--", "sh", "-c", "echo $STOKER_JOB_ID.$STOKER_ATTEMPT")
    assert told == f"{reused.first_id}.1\n"


def test_a_job_may_queue_jobs_of_its_own(reused: StokerHome) -> None:
    job = reused.add("--gpus", "1", "--", *reused.command("add", "--", "printenv", "STOKER_JOB_ID"))
    reused.until_final(job)
    inner = int(reused.log_of(job))
    reused.until_final(inner)
    assert reused.log_of(inner) == f"{inner}\n"


def test_times_are_in_order_and_about_now(reused: StokerHome) -> None:
    before = time.time() * 1000
    job = reused.add("--", "true")
    ended = reused.until_final(job)[0]
    after = time.time() * 1000
    moments = [ended["submitted_at_ms"], ended["started_at_ms"], ended["ended_at_ms"]]
    assert moments == sorted(moments)
    assert before - 1000 <= moments[0] and moments[-1] <= after + 1000
    assert Path(ended["log"]).is_relative_to(reused.home.root)
    assert os.path.isabs(ended["log"])
