"""Every verb against a real daemon: what it does, what it prints, and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from stoker.errors import UsageError
from stoker_home import StokerHome, is_running, pid_in
from waiting import eventually

JOB_FIELDS = {"id", "name", "state", "reason", "exit_code", "gpus", "command", "submitted_at",
              "started_at", "ended_at"}  # fmt: skip


def read(stoker: StokerHome, *words: str) -> Any:
    """What a verb prints with --json; each has the version of its schema."""
    shown = json.loads(stoker.stoker(*words, "--json"))
    assert shown["schema"] == 1
    return shown


# ---------------------------------------------------------------------- add, ls, show, why


def test_add_prints_the_id_on_stdout_and_nothing_else(reused: StokerHome) -> None:
    ran = reused.cli("add", "--gpus", "2", "--name", "big", "--", "sh", "-c", "exit 0")
    assert (ran.code, ran.out, ran.err) == (0, f"{reused.nth(1)}\n", "")
    answer = json.loads(reused.stoker("add", "--json", "--", "true"))
    assert answer == {"schema": 1, "ids": [reused.nth(2)]}


def test_ls_json_has_the_documented_shape(reused: StokerHome) -> None:
    first = reused.add("--name", "first", "--", "sh", "-c", "exit 3")
    reused.until_final(first)
    shown = read(reused, "ls")
    (job,) = shown["jobs"]
    assert set(job) >= JOB_FIELDS
    assert (job["id"], job["name"], job["state"], job["exit_code"]) == (first, "first", "failed", 3)
    assert job["command"] == "sh -c 'exit 3'" and job["gpus"] == ["0"]
    assert job["reason"] == "exit code 3"
    assert job["submitted_at"] <= job["started_at"] <= job["ended_at"]
    assert job["ended_at"].endswith("Z")


def test_ls_filters_by_state_group_name_and_user(reused: StokerHome) -> None:
    reused.call("pause")
    user = json.loads(reused.stoker("add", "--json", "--name", "a", "--group", "g", "--", "true"))
    assert user["ids"] == [reused.nth(1)]
    reused.add("--name", "b", "--group", "g", "--hold", "--", "true")
    reused.add("--name", "ab", "--", "true")
    me = reused.job(reused.nth(1))["user"]

    def listed(*words: str) -> list[int]:
        """Which of the three are shown."""
        jobs = read(reused, "ls", *words)["jobs"]
        return [job["id"] - reused.first_id + 1 for job in jobs]

    assert listed("--state", "held") == [2]
    assert listed("--state", "held,waiting") == [1, 2, 3]
    assert listed("--group", "g") == [1, 2]
    assert listed("--name", "a*") == [1, 3]
    assert listed("--name", "a*", "--group", "g") == [1]
    assert listed("--user", me) == [1, 2, 3] and listed("--user", "nobody-else") == []
    assert listed(f"{reused.nth(2)}-{reused.nth(3)}") == [2, 3] and listed("last") == [3]
    assert listed("--limit", "1") in ([1], [3])
    assert listed("--all") == [1, 2, 3]


def test_a_name_with_the_letters_of_a_pattern_still_means_itself(reused: StokerHome) -> None:
    reused.call("pause")
    job = reused.add("--name", "lr=[0.1]*", "--", "true")
    assert [j["id"] for j in read(reused, "ls", "--name", "lr=[0.1]*")["jobs"]] == [job]
    reused.stoker("cancel", "--name", "lr=[0.1]*")
    assert reused.job(job)["state"] == "cancelled"


def test_show_json_is_one_job_with_its_attempts(reused: StokerHome) -> None:
    job_id = reused.add("--retries", "1", "--", "sh", "-c", "exit 4")
    reused.until_final(job_id)
    job = read(reused, "show", str(job_id))["job"]
    assert set(job) >= JOB_FIELDS | {"attempts", "need", "cwd", "log"}
    assert [(a["attempt"], a["state"], a["exit_code"]) for a in job["attempts"]] == [
        (1, "failed", 4), (2, "failed", 4)]  # fmt: skip
    text = reused.stoker("show", str(job_id))
    assert "sh -c 'exit 4'" in text and "failed" in text


def test_why_tells_the_reason_in_words_and_as_data(reused: StokerHome) -> None:
    blocker = reused.submit("sleep", "600", gpus=3)
    waiting = reused.submit("true", gpus=2)
    text = reused.stoker("why", str(waiting))
    assert f"job {waiting} is waiting: needs 2 GPUs, 1 of 4 free" in text
    (job,) = read(reused, "why", str(waiting))["jobs"]
    assert job["reason"] == {
        "kind": "NeedsGpus",
        "wanted": 2,
        "free": 1,
        "allowed": 4,
        "others": 0,
        "share_milli": None,
        "adopted": [],
    }
    assert "running" in reused.stoker("why", str(blocker))


def test_why_tells_when_a_job_will_start_once_that_can_be_told(reused: StokerHome) -> None:
    reused.submit("sleep", "600", gpus=4, time_limit_ms=3_600_000)
    waiting = reused.submit("true", gpus=1)
    (job,) = read(reused, "why", str(waiting))["jobs"]
    assert job["starts_at"] is not None
    assert "it should start in about" in reused.stoker("why", str(waiting))


def test_bare_stoker_shows_gpus_and_jobs(reused: StokerHome) -> None:
    reused.until_state(reused.submit("sleep", "600", name="long", gpus=2), "running")
    text = reused.stoker()
    assert "GPU" in text and "long" in text and "1 running" in text
    shown = read(reused, "status")
    assert {"gpus", "jobs", "counts", "paused", "daemon"} <= set(shown)
    assert shown["counts"]["running"] == 1


# ---------------------------------------------------------------------- wait


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 41", 41), ("kill -TERM $$", 143)]
)
def test_wait_for_one_job_gives_its_own_exit_code(
    reused: StokerHome, script: str, code: int
) -> None:
    job = reused.submit("sh", "-c", script)
    assert reused.cli("wait", str(job)).code == code
    assert reused.cli("wait", "last").code == code


def test_wait_for_a_job_that_was_cancelled_while_it_ran_is_1(reused: StokerHome) -> None:
    job = reused.submit("sleep", "600")
    reused.until_state(job, "running")
    reused.stoker("cancel", str(job))
    ran = reused.cli("wait", str(job))
    assert (ran.code, ran.out) == (1, "")
    assert reused.job(job)["signal"] == 15, "how its process ended stays known"


def test_wait_for_several_is_1_if_any_failed(reused: StokerHome) -> None:
    good = reused.submit_all([{"argv": ["true"], "group": "g"}] * 2)
    bad = reused.submit("sh", "-c", "exit 9", group="h")
    ran = reused.cli("wait", f"{good[0]}-{bad}")
    assert ran.code == 1 and ran.out == "" and f"job {bad}" in ran.err
    assert reused.cli("wait", "--group", "g").code == 0
    assert reused.cli("wait", *map(str, good)).code == 0
    assert reused.cli("wait", "--all").code == 0


def test_wait_gives_up_with_124(reused: StokerHome) -> None:
    job = reused.submit("sleep", "600")
    assert reused.cli("wait", str(job), "--timeout", "200ms").code == 124
    assert reused.cli("wait", "--all", "--timeout", "200ms").code == 124
    ran = reused.cli("wait", str(job), "--timeout", "100ms", "--json")
    shown = json.loads(ran.out)
    assert ran.code == 124 and shown["timed_out"] is True
    assert shown["jobs"][0]["state"] == "running"


def test_wait_returns_when_the_job_ends_and_not_before(reused: StokerHome) -> None:
    go = reused.work / "go"
    job = reused.submit("sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done; exit 6")
    waiter = reused.popen("wait", str(job))
    reused.until_state(job, "running")
    assert waiter.poll() is None
    go.touch()
    assert waiter.wait(60) == 6


def test_wait_goes_on_over_a_restart_of_the_daemon(reused: StokerHome) -> None:
    go = reused.work / "go"
    job = reused.submit("sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done; exit 6")
    reused.until_state(job, "running")
    waiter = reused.popen("wait", str(job), stderr=subprocess.DEVNULL)
    reused.kill_daemon()
    reused.start()
    go.touch()
    assert waiter.wait(60) == 6


# ---------------------------------------------------------------------- cancel, retry, hold, edit


def test_cancel_takes_ids_ranges_names_groups_and_all(reused: StokerHome) -> None:
    reused.call("pause")
    ids = [
        reused.submit("true", name=f"n{number}", group="g" if number > 3 else None)
        for number in range(6)
    ]
    assert read(reused, "cancel", f"{ids[0]}-{ids[1]}")["ids"] == ids[:2]
    assert read(reused, "cancel", "--name", "n2")["ids"] == [ids[2]]
    assert read(reused, "cancel", "--group", "g")["ids"] == ids[4:]
    assert read(reused, "cancel", "--all")["ids"] == [ids[3]]
    assert {job["state"] for job in reused.jobs().values()} == {"cancelled"}


def test_retry_of_a_job_that_is_stopping_says_how_to_wait_for_its_end(reused: StokerHome) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.02; done"
    job = reused.submit("sh", "-c", script, grace_ms=600_000)
    eventually(lambda: "ready" in reused.cli("logs", str(job)).out, "it ignores SIGTERM")
    reused.stoker("cancel", str(job))
    ran = reused.cli("retry", str(job))
    assert ran.code == 1
    assert (
        f"job {job} is stopping, and has not ended; `stoker wait {job}` waits for that" in ran.err
    )
    os.kill(reused.job(job)["pid"], 9)
    reused.until_final(job)


def test_retry_runs_a_finished_job_again_and_keeps_its_history(reused: StokerHome) -> None:
    flag = reused.work / "flag"
    job = reused.submit("sh", "-c", f"[ -e {flag} ]")
    assert reused.until_final(job)[0]["state"] == "failed"
    flag.touch()
    assert read(reused, "retry", str(job))["ids"] == [job]
    ended = reused.until_final(job)[0]
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)
    assert [a["state"] for a in ended["attempts"]] == ["failed", "succeeded"]


def test_a_job_that_is_tried_again_waits_anew_and_shows_nothing_of_its_past(
    reused: StokerHome,
) -> None:
    go = reused.work / "go"
    script = f"until [ -e {go} ]; do sleep 0.02; done; exit 3"
    once = reused.submit("sh", "-c", script, gpus=1)
    often = reused.submit("sh", "-c", script, gpus=1, retries=5)
    for job in (once, often):
        assert reused.until_state(job, "running")["gpus"]
    reused.stoker("pause")
    go.touch()
    reused.until_final(once)
    reused.until_state(often, "waiting")
    reused.stoker("retry", str(once))
    for job in (once, often):
        shown = reused.job(job)
        [past] = shown["attempts"]
        assert shown["state"] == "waiting" and past["gpus"]
        [browsed] = [one for one in reused.call("browse")["jobs"] if one["id"] == job]
        for view in (shown, browsed):
            assert (view["gpus"], view["started_at_ms"]) == ([], None)
            assert view["queued_at_ms"] >= past["ended_at_ms"] > view["submitted_at_ms"]
        assert shown["pid"] is None
        page = reused.stoker("show", str(job))
        assert "  GPUs " not in page and "  process " not in page
    rows = [line.split() for line in reused.stoker("ls").splitlines()[1:]]
    assert [row[2] for row in rows] == ["x1", "x1"]
    reused.stoker("cancel", "--all")
    called_off = reused.job(often)
    assert called_off["state"] == "cancelled"
    assert (called_off["gpus"], called_off["started_at_ms"]) == ([], None), "of its past attempt"


def several_ends(home: StokerHome) -> tuple[int, int, int]:
    """A job that succeeded, one that failed and one that was cancelled, in a group g."""
    commands = ("true", "false", "sleep 600")
    ids = home.submit_all([{"shell": command, "group": "g"} for command in commands])
    home.stoker("cancel", str(ids[2]))
    home.until_final(*ids)
    return ids[0], ids[1], ids[2]


def test_retry_of_several_means_what_did_not_succeed_and_was_not_cancelled(
    reused: StokerHome,
) -> None:
    good, bad, cancelled = several_ends(reused)
    for words in (["--group", "g"], ["--all"], [f"{good}-{cancelled}"]):
        ran = reused.cli("retry", *words)
        assert ran.err.startswith(f"queued again: job {bad} (1 failed); left out: "), ran
        assert "1 cancelled" in ran.err and ("1 succeeded" in ran.err) == (words != ["--all"])
        assert reused.until_final(bad)[0]["state"] == "failed"
    assert [reused.job(one)["attempt"] for one in (good, bad, cancelled)] == [1, 4, 1]


def test_retry_by_state_or_by_the_very_id_takes_what_was_named(reused: StokerHome) -> None:
    good, bad, cancelled = several_ends(reused)
    answer = read(reused, "retry", "--group", "g", "--state", "succeeded,failed")
    assert (answer["ids"], answer["counts"]) == ([good, bad], {"succeeded": 1, "failed": 1})
    reused.until_final(good, bad)
    assert read(reused, "retry", str(good), str(cancelled))["ids"] == [good, cancelled]
    ran = reused.cli("retry", "--group", "g", "--state", "lost")
    assert (ran.code, ran.err.partition(";")[0]) == (1, "stoker: none of these jobs is lost")


def test_retry_of_a_group_leaves_alone_what_has_not_ended(reused: StokerHome) -> None:
    good, bad, cancelled = several_ends(reused)
    running = reused.submit("sleep", "600", group="g")
    reused.until_state(running, "running")
    held = reused.submit("true", group="g", hold=True)
    answer = read(reused, "retry", "--group", "g")
    assert (answer["ids"], answer["counts"]) == ([bad], {"failed": 1})
    assert answer["left_out"] == {
        "succeeded": [good], "cancelled": [cancelled], "running": [running], "held": [held],
    }  # fmt: skip
    reused.until_final(bad)
    ran = reused.cli("retry", str(running), str(held))
    assert ran.code == 1 and f"job {running} is running, and has not ended" in ran.err
    assert (reused.job(running)["state"], reused.job(held)["state"]) == ("running", "held")


def test_retry_last_names_one_job_which_is_queued_again_however_it_ended(
    reused: StokerHome,
) -> None:
    job = reused.submit("true")
    reused.until_final(job)
    assert read(reused, "retry", "last")["ids"] == [job]
    reused.until_final(job)
    assert reused.job(job)["attempt"] == 2


def test_retry_of_several_does_what_it_can_and_says_why_not_the_rest(reused: StokerHome) -> None:
    first = reused.submit("sleep", "600", group="g")
    second = reused.submit("true", group="g", after=[str(first)])
    bad = reused.submit("false", group="g")
    reused.stoker("cancel", str(first))
    reused.until_final(first, second, bad)
    ran = reused.cli("retry", "--group", "g")
    assert ran.code == 0 and ran.err.startswith(f"queued again: job {bad} (1 failed); ")
    assert f"job {second} needs job {first}, which ended as cancelled" in ran.err


def test_retry_of_named_jobs_does_what_it_can_and_counts_the_rest(reused: StokerHome) -> None:
    for _ in range(2):
        assert reused.cli("run", "--", "false").code == 1
    here = list(reused.jobs())
    bad = reused.submit("false")
    reused.until_final(bad)
    ran = reused.cli("retry", str(here[0]), str(bad))
    assert ran.code == 0, ran.err
    assert ran.err == (
        f"queued again: job {bad} (1 failed); left out: job {here[0]} ran in a terminal\n"
    )
    reused.until_final(bad)
    ran = reused.cli("retry", "--all")
    assert ran.err.endswith("left out: each of 2 jobs ran in a terminal\n"), ran.err
    ran = reused.cli("retry", *map(str, here))
    assert ran.code == 1 and ran.err.startswith(f"stoker: job {here[0]} ran in a terminal; ")


def test_cancel_hold_release_and_rm_can_be_narrowed_by_state(reused: StokerHome) -> None:
    running = reused.submit("sleep", "600", group="g")
    reused.until_state(running, "running")
    reused.call("pause")
    waiting = reused.submit_all([{"shell": "true", "group": "g"}] * 2)
    assert read(reused, "hold", "--group", "g", "--state", "waiting")["ids"] == waiting
    assert (
        read(reused, "release", f"{running}-{waiting[0]}", "--state", "held")["ids"]
        == (waiting[:1])
    )
    assert read(reused, "cancel", "--group", "g", "--state", "waiting")["ids"] == waiting[:1]
    assert read(reused, "cancel", "--state", "held")["ids"] == waiting[1:]
    assert reused.job(running)["state"] == "running"
    assert read(reused, "rm", f"{running}-{waiting[1]}", "--state", "cancelled")["ids"] == waiting


def test_edit_of_several_changes_what_it_can_and_names_the_rest(reused: StokerHome) -> None:
    done = reused.submit("true")
    reused.until_final(done)
    running = reused.submit("sleep", "600")
    reused.until_state(running, "running")
    held = reused.submit_all([{"shell": "true", "hold": True}] * 2)
    ran = reused.cli("edit", f"{done}-{held[1]}", "--priority", "5")
    assert ran.code == 0
    assert ran.err.startswith(f"changed: jobs {held[0]}-{held[1]}; not: "), ran.err
    assert f"job {done} (succeeded)" in ran.err and f"job {running} (running)" in ran.err
    assert read(reused, "edit", "--state", "held", "--priority", "7")["ids"] == held
    assert reused.job(held[1])["priority"] == 7
    assert reused.cli("edit", str(running), "--priority", "5").code == 1


def test_edit_tells_of_each_job_its_own_reason(reused: StokerHome) -> None:
    running = reused.submit("sleep", "600")
    reused.until_state(running, "running")
    late = {"time_limit_ms": 600_000, "signal": "USR1", "signal_before_ms": 120_000}
    warned, plain = reused.submit_all(
        [{"shell": "true", "hold": True, **late}, {"shell": "true", "hold": True}]
    )
    answer = read(reused, "edit", f"{running}-{plain}", "--time-limit", "1m")
    assert answer["ids"] == [plain]
    [(state, first), (why, second)] = answer["left_out"].items()
    assert (state, first, second) == ("running", [running], [warned])
    assert "before the job starts" in why


def test_a_state_that_does_not_exist_is_refused_and_nothing_is_done(reused: StokerHome) -> None:
    job = reused.submit("true", group="g", hold=True)
    for op in ("cancel", "retry", "hold", "release", "remove"):
        for select in ({"group": "g"}, {"all": True}, {"ids": [str(job)]}):
            with pytest.raises(UsageError, match="there is no state 'hold'"):
                reused.call(op, select=select | {"states": ["held", "hold"]})
    ran = reused.cli("cancel", "--group", "g", "--state", "waitng")
    assert ran.code == 2 and "did you mean waiting?" in ran.err
    assert reused.job(job)["state"] == "held"


def test_edit_can_take_options_for_slurm_away_again(reused: StokerHome) -> None:
    job = reused.add("--hold", "--slurm", "--time=5", "--", "true")
    reused.stoker("edit", str(job), "--slurm", "none", "--executor", "local")
    assert reused.job(job)["executor"] == "local"


def test_the_help_of_edit_does_not_tell_the_defaults_of_new_jobs(reused: StokerHome) -> None:
    assert "(default: " in reused.stoker("add", "--help")
    assert "(default: " not in reused.stoker("edit", "--help")


def test_a_held_job_waits_for_release(reused: StokerHome) -> None:
    job = reused.add("--hold", "--", "true")
    assert reused.job(job)["state"] == "held"
    assert "held" in reused.stoker("why", str(job))
    reused.stoker("release", str(job))
    assert reused.until_final(job)[0]["state"] == "succeeded"
    reused.call("pause")
    job = reused.add("--", "true")
    reused.stoker("hold", str(job))
    reused.call("resume")
    assert reused.job(job)["state"] == "held"


def test_edit_changes_command_needs_and_priority_of_a_waiting_job(reused: StokerHome) -> None:
    reused.call("pause")
    first = reused.add("--", "sh", "-c", "echo first")
    job = reused.add("--", "sh", "-c", "echo old")
    reused.stoker("edit", str(job), "--priority", "-3", "--gpus", "2", "--name", "new", "--env",
                  "A=1", "--", "sh", "-c", "echo new $A")  # fmt: skip
    view = reused.job(job)
    assert (view["priority"], view["need"]["gpus"], view["name"]) == (-3, 2, "new")
    reused.call("resume")
    ended, other = reused.until_final(job, first)
    assert len(ended["gpus"]) == 2 and reused.log_of(job) == "new 1\n"
    assert ended["started_at_ms"] <= other["started_at_ms"]


def test_rm_forgets_finished_jobs_and_deletes_their_logs(reused: StokerHome) -> None:
    job = reused.submit("echo", "hello")
    reused.until_final(job)
    log = Path(reused.job(job)["log"])
    assert log.exists()
    assert read(reused, "rm", str(job))["ids"] == [job]
    eventually(lambda: not log.exists(), "its log is deleted")
    assert reused.cli("show", str(job)).code == 3
    assert reused.submit("true") == job + 1, "an id is never given twice"


def test_rm_leaves_files_that_the_user_named(reused: StokerHome) -> None:
    out = reused.work / "out.txt"
    job = reused.add("--out", str(out), "--", "echo", "mine")
    reused.until_final(job)
    reused.stoker("rm", str(job))
    assert out.read_text() == "mine\n"


def test_rm_by_name_forgets_those_that_have_ended_and_leaves_the_others(
    reused: StokerHome,
) -> None:
    ended, held = reused.submit("true", name="n"), reused.submit("true", name="n", hold=True)
    reused.until_final(ended)
    assert read(reused, "rm", "--name", "n")["ids"] == [ended]
    assert reused.job(held)["state"] == "held"
    assert reused.cli("rm", str(held)).code == 1, "one that is named by its id must have ended"


# ---------------------------------------------------------------------- pause, groups


def test_pause_and_resume_hold_the_whole_queue(reused: StokerHome) -> None:
    running = reused.submit("sleep", "600")
    reused.until_state(running, "running")
    reused.stoker("pause")
    job = reused.submit("true")
    assert "paused" in reused.stoker("why", str(job))
    assert "paused" in reused.stoker()
    assert reused.job(running)["state"] == "running"
    reused.stoker("resume")
    assert reused.until_final(job)[0]["state"] == "succeeded"


def test_pause_and_resume_hold_one_group(reused: StokerHome) -> None:
    held = reused.submit("sleep", "0", group="sweep", hold=True)
    reused.stoker("pause", "--group", "sweep")
    reused.stoker("release", str(held))
    free = reused.submit("true")
    assert reused.until_final(free)[0]["state"] == "succeeded"
    assert reused.job(held)["state"] == "waiting"
    hint = reused.stoker("why", str(held))
    assert "`stoker resume --group sweep`" in hint
    assert "`stoker resume --group sweep`" in reused.stoker()
    reused.stoker("resume", "--group", "sweep")
    assert reused.until_final(held)[0]["state"] == "succeeded"


def test_a_group_may_be_limited(reused: StokerHome) -> None:
    reused.call("limit_group", group="g", max_running=1)
    ids = reused.submit_all([{"argv": ["sleep", "600"], "group": "g"}] * 3)
    reused.until_state(ids[0], "running")
    assert [reused.job(i)["state"] for i in ids] == ["running", "waiting", "waiting"]
    assert "at most 1 job" in reused.job(ids[1])["reason"]
    reused.call("limit_group", group="g", max_running=None)
    for job_id in ids:
        reused.until_state(job_id, "running")


# ---------------------------------------------------------------------- GPUs and settings


def test_gpus_are_added_drained_resumed_and_removed_while_jobs_run(reused: StokerHome) -> None:
    pid_file = reused.work / "pid"
    job = reused.submit("sh", "-c", f"echo $$ > {pid_file}; exec sleep 600", on=["2"])
    pid = pid_in(pid_file)

    def states() -> dict[str, str]:
        return {gpu["id"]: gpu["state"] for gpu in read(reused, "gpus")["gpus"]}

    assert states() == {"0": "free", "1": "free", "2": "busy", "3": "free"}
    reused.stoker("gpus", "drain", "2,3")
    assert states()["3"] == "drained"
    reused.stoker("gpus", "add", "4:24G")
    assert states()["4"] == "free"
    reused.stoker("gpus", "remove", "2")
    assert states()["2"] == "removing" and is_running(pid), "what it runs is finished"
    wants_3 = reused.submit("true", on=["3"])
    assert "drained" in reused.job(wants_3)["reason"]
    reused.stoker("gpus", "resume", "3")
    assert reused.until_final(wants_3)[0]["gpus"] == ["3"]
    reused.call("cancel", select={"ids": [str(job)]})
    reused.until_final(job)
    assert "2" not in states()
    text = reused.stoker("gpus")
    assert "24" in text and "free" in text


def test_a_new_gpu_is_used_at_once(reused: StokerHome) -> None:
    reused.submit("sleep", "600", gpus=4)
    waiting = reused.submit("true")
    reused.stoker("gpus", "add", "9")
    assert reused.until_final(waiting)[0]["gpus"] == ["9"]


def test_config_declares_gpus_and_remembers_settings(home: StokerHome) -> None:
    home.stoker("config", "set", "gpus", "0:24G,1")
    assert home.stoker("config", "get", "gpus") == "0:24G,1\n"
    home.stoker("config", "set", "grace", "5s")
    home.stoker("config", "set", "cpus", "3")
    home.stoker("daemon", "restart")
    settings = {s["name"]: s["value"] for s in read(home, "config")["settings"]}
    assert settings["gpus"] == "0:24G,1" and settings["grace"] == "5s" and settings["cpus"] == "3"
    assert home.job(home.submit("true", hold=True))["grace_ms"] == 5000
    home.stoker("config", "unset", "grace")
    assert home.stoker("config", "get", "grace") == "30s\n"
    assert "gpus" in home.stoker("config")


def test_gpus_named_with_on_declare_themselves_where_none_are(home: StokerHome) -> None:
    job = home.add("--on", "0,1,2", "--gpus", "2", "--", "true")
    assert home.until_final(job)[0]["gpus"] == ["0", "1"]
    assert [gpu["id"] for gpu in home.call("gpus")["gpus"]] == ["0", "1", "2"]


# ---------------------------------------------------------------------- help and the like


VERBS = ["status", "add", "run", "ls", "show", "why", "logs", "wait", "cancel", "retry", "hold",
         "release", "edit", "rm", "pause", "resume", "gpus", "config", "daemon"]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(home: StokerHome, verb: str) -> None:
    ran = home.cli(verb, "--help")
    assert ran.code == 0 and ran.err == ""
    assert f"stoker {verb}" in ran.out or verb == "status"
    assert "xample" in ran.out
    assert not Path(home.home.root).exists(), "help needs no daemon"


def test_version_and_help(home: StokerHome) -> None:
    import stoker

    assert home.stoker("--version") == f"stoker {stoker.__version__}\n"
    overview = home.stoker("--help")
    assert all(verb in overview for verb in VERBS)


def test_bash_understands_the_completion(home: StokerHome) -> None:
    script = home.root / "completion.bash"
    script.write_text(home.stoker("completion", "bash"))
    checked = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    offers = f"""
source {script}
COMP_WORDS=(stoker add --ti); COMP_CWORD=2; COMP_LINE="stoker add --ti"; COMP_POINT=${{#COMP_LINE}}
complete -p stoker >/dev/null || exit 1
function=$(complete -p stoker | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function stoker --ti add
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", offers], env=home.env, capture_output=True, text=True
    )
    assert "--time-limit" in done.stdout, done


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_completions_too(home: StokerHome, shell: str) -> None:
    assert "stoker" in home.stoker("completion", shell)


def test_those_who_follow_a_group_hear_of_each_start_and_end_once(reused: StokerHome) -> None:
    with reused.client() as follower:
        follower.call("follow", group="g")
        jobs = [{"argv": ["true"], "group": "g"}]
        once, again = uuid4().hex, uuid4().hex
        (first,) = reused.submit_all(jobs, token=once)
        reused.until_final(first)
        for _ in range(3):
            reused.submit_all(jobs, token=once)  # A turn in which nothing changes.
        (second,) = reused.submit_all(jobs, token=again)
        told = []
        while ("ended", second) not in told:
            line = follower.receive(60)
            told.append((line["event"], line["id"]))
    assert told == [
        ("started", first), ("ended", first), ("started", second), ("ended", second),
    ]  # fmt: skip
