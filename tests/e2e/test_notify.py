"""Users are told when it is over: messages and hooks, as they arrive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from message_sinks import Sink, http_sink, left_to_tell, smtp_sink
from stoker_home import StokerHome, is_running
from waiting import eventually


@pytest.fixture
def web(home: StokerHome) -> Iterator[Sink]:
    """A home whose messages go to an HTTP server."""
    home.start(gpus="0-1")
    with http_sink() as sink:
        home.stoker("config", "set", "notify", sink.url)
        yield sink


def arrived(sink: Sink, count: int) -> list[tuple[str, str]]:
    eventually(lambda: len(sink.arrived) >= count, f"{count} messages have arrived")
    return sink.arrived


def until_told(home: StokerHome) -> None:
    eventually(lambda: not left_to_tell(home.home.database), "all is told")


def test_the_end_of_a_job_arrives_by_http_and_by_mail(home: StokerHome) -> None:
    home.start(gpus="0-1")
    with http_sink() as web, smtp_sink() as mail:
        home.stoker("config", "set", "notify", web.url, mail.url)
        job_id = home.add("--notify", "--name", "resnet", "--", "true")
        for sink in (web, mail):
            title, text = arrived(sink, 1)[0]
            assert title == f"job {job_id} (resnet) has succeeded"
            assert "true" in text.splitlines() and "on GPU " in text
        until_told(home)
        assert len(web.arrived) == len(mail.arrived) == 1


def test_a_failure_is_told_with_the_failing_line(home: StokerHome, web: Sink) -> None:
    script = "echo epoch 1; echo 'RuntimeError: CUDA error: device lost' >&2; echo bye; exit 3"
    job_id = home.add("--notify", "--", "sh", "-c", script)
    title, text = arrived(web, 1)[0]
    assert title == f"job {job_id} has failed"
    assert "exit code 3" in text and text.endswith("RuntimeError: CUDA error: device lost")


def test_a_message_is_marked_as_success_warning_or_failure(home: StokerHome, web: Sink) -> None:
    bad = home.add("--notify", "--", "false")
    skipped = home.add("--notify", "--after", str(bad), "--", "true")
    good = home.add("--notify", "--", "true")
    arrived(web, 3)
    assert web.kinds == {
        f"job {bad} has failed": "failure",
        f"job {skipped} was skipped": "warning",
        f"job {good} has succeeded": "success",
    }


def test_only_jobs_that_say_so_are_told_of_and_cancelled_ones_are_not(
    home: StokerHome, web: Sink
) -> None:
    home.until_final(home.add("--", "true"))
    cancelled = home.add("--notify", "--hold", "--", "true")
    home.stoker("cancel", str(cancelled))
    told = home.add("--notify", "--", "true")
    arrived(web, 1)
    until_told(home)
    assert web.titles() == [f"job {told} has succeeded"]


def test_a_group_is_told_of_once_with_counts_and_at_its_first_failure(
    home: StokerHome, web: Sink
) -> None:
    codes = [0, 3, 0, 4, 0]
    scripts = [f"echo job of {code}; exit {code}" for code in codes]
    jobs = [{"argv": ["sh", "-c", s], "notify": True, "group": "night"} for s in scripts]
    home.until_final(*home.submit_all(jobs))
    arrived(web, 2)
    until_told(home)
    first, last = sorted(web.arrived, key=lambda one: "has ended" in one[0])
    assert first[0].endswith("has failed, the first of night") and "exit code" in first[1]
    assert last[0] == "group night has ended: 3 succeeded, 2 failed"
    assert {web.kinds[first[0]], web.kinds[last[0]]} == {"failure"}
    assert "5 jobs" in last[1] and "first failure: job" in last[1]
    assert last[1].splitlines()[-1] in ("job of 3", "job of 4")
    assert len(web.arrived) == 2


def test_a_sweep_is_told_of_as_a_sweep(home: StokerHome, web: Sink) -> None:
    home.stoker("sweep", "lr=1,2,3", "--name", "lrs", "--notify", "--", "echo", "{lr}")
    title, _ = arrived(web, 1)[0]
    assert title == "sweep lrs has ended: 3 succeeded"
    assert web.kinds[title] == "success"
    until_told(home)
    assert len(web.arrived) == 1


def test_a_search_is_told_of_once_and_not_after_each_of_its_points(
    home: StokerHome, web: Sink
) -> None:
    words = ("x=uniform(0,1)", "--minimize", "loss", "--samples", "3", "--max-running", "1")
    home.stoker("sweep", *words, "--name", "s", "--notify", "--", "echo loss={x} acc=0{x}")
    title, text = arrived(web, 1)[0]
    assert title == "sweep s has ended: 3 succeeded"
    assert "best: loss 0." in text, "a search says what it looks for"
    until_told(home)
    assert len(web.arrived) == 1


def test_the_message_of_a_sweep_names_its_best_point(home: StokerHome, web: Sink) -> None:
    line = "echo epoch=1 loss={lr}.5; echo epoch=2 loss={lr}.25"
    home.stoker("sweep", "lr=3,1,2", "--name", "lrs", "--notify", "--", line)
    _, text = arrived(web, 1)[0]
    assert f"best: loss 1.25, job {home.first_id + 1}: lr=1" in text.splitlines()
    # Two that could be meant: neither is the best.
    line = "echo epoch=1 loss={lr}.5 acc=0.{lr}"
    home.stoker("sweep", "lr=1,2", "--name", "two", "--notify", "--", line)
    title, text = arrived(web, 2)[1]
    assert title.startswith("sweep two ") and "best" not in text


def test_a_message_names_no_failed_point_as_the_best_and_the_front_of_several_goals(
    home: StokerHome, web: Sink
) -> None:
    line = "echo loss={lr}; test {lr} != 1"
    home.stoker("sweep", "lr=1,3,2", "--name", "lrs", "--notify", "--", line)
    texts = {title.split()[1]: text for title, text in arrived(web, 2)}  # one is of the failed job
    assert f"best: loss 2, job {home.first_id + 2}: lr=2" in texts["lrs"].splitlines()
    words = ("x=choice(1,2)", "--minimize", "loss", "--maximize", "q", "--sampler", "grid",
             "--samples", "2")  # fmt: skip
    home.stoker("sweep", *words, "--name", "s", "--notify", "--", "echo loss={x} q={x}")
    title, text = arrived(web, 3)[2]
    assert title.startswith("sweep s ")
    assert "Pareto front of loss, q: 2 points" in text.splitlines()


def test_a_message_that_is_refused_is_sent_later_and_jobs_go_on(
    home: StokerHome, web: Sink
) -> None:
    web.refuses = True
    told = home.add("--notify", "--", "true")
    eventually(lambda: web.refused >= 2, "it was tried twice")
    home.until_final(home.add("--", "true"))
    assert "was not sent" in home.log_text()
    web.refuses = False
    assert arrived(web, 1)[0][0] == f"job {told} has succeeded"
    until_told(home)
    assert len(web.arrived) == 1


def test_an_address_that_fails_does_not_repeat_the_message_at_another(home: StokerHome) -> None:
    home.start(gpus="0-1")
    with http_sink() as good, http_sink() as bad:
        bad.refuses = True
        home.stoker("config", "set", "notify", good.url, bad.url)
        home.add("--notify", "--", "true")
        eventually(lambda: bad.refused >= 2, "it was tried twice")
        bad.refuses = False
        arrived(bad, 1)
        until_told(home)
        assert len(good.arrived) == len(bad.arrived) == 1


def test_messages_wait_in_quiet_hours_and_hooks_do_not(home: StokerHome, web: Sink) -> None:
    home.stoker("config", "set", "notify.quiet", "00:00-23:59")
    mark = home.work / "mark"
    home.add("--notify", "--hook", f"touch {mark}", "--", "true")
    eventually(mark.exists, "the hook has run")
    assert not web.arrived
    home.stoker("config", "unset", "notify.quiet")
    arrived(web, 1)


def test_a_hook_gets_the_job_as_json_in_the_jobs_place(home: StokerHome) -> None:
    home.start(gpus="0-1")
    kept = home.work / "kept"
    hook = f"cat > {kept}.new; echo $COLOUR >> {kept}.new; pwd >> {kept}.new; mv {kept}.new {kept}"
    job_id = home.add("--hook", hook, "--env", "COLOUR=green", "--", "sh", "-c", "exit 7")
    eventually(kept.exists, "the hook has run")
    text, colour, directory = kept.read_text().splitlines()
    job = json.loads(text)
    assert (job["id"], job["state"], job["exit_code"]) == (job_id, "failed", 7)
    assert job["reason"] and job["attempts"][0]["log"]
    assert (colour, directory) == ("green", str(home.work))
    assert home.job(job_id)["hook"] == hook


def test_a_hook_gets_the_json_of_show_and_knows_its_job(home: StokerHome) -> None:
    home.start(gpus="0-1")
    kept = home.work / "kept"
    env = "$STOKER_JOB_ID $STOKER_ATTEMPT $STOKER_NAME ${STOKER_ATTEMPT_ID-none}"
    hook = f"cat > {kept}.new; echo {env} >> {kept}.new; mv {kept}.new {kept}"
    job_id = home.add("--hook", hook, "--name", "long", "--", "true")
    eventually(kept.exists, "the hook has run")
    text, told = kept.read_text().splitlines()
    shown = json.loads(home.stoker("show", str(job_id), "--json"))["job"]
    assert json.loads(text).keys() == shown.keys()
    assert json.loads(text)["ended_at"] == shown["ended_at"]
    assert told == f"{job_id} 1 long none"


def test_a_hook_that_fails_is_logged_and_touches_no_job(home: StokerHome) -> None:
    home.start(gpus="0-1")
    job_id = home.add("--hook", "echo oh dear; exit 9", "--", "true")
    eventually(lambda: "ended with exit code 9" in home.log_text(), "it is logged")
    assert home.job(job_id)["state"] == "succeeded"
    assert "oh dear" in Path(home.home.root, "notify", "hooks.log").read_text()


def test_a_hook_goes_on_when_daemon_and_sender_are_gone(home: StokerHome) -> None:
    home.start(gpus="0-1")
    mark, go = home.work / "mark", home.work / "go"
    wait = f"echo $$ > {mark}.pid; until [ -e {go} ]; do sleep 0.05; done; touch {mark}"
    home.add("--hook", wait, "--", "true")
    pid_file = Path(f"{mark}.pid")
    eventually(lambda: pid_file.exists() and pid_file.read_text().strip(), "the hook runs")
    home.kill_daemon()
    home.start()
    assert is_running(int(pid_file.read_text()))
    go.touch()
    eventually(mark.exists, "the hook has ended")


def test_without_an_address_notify_is_refused_in_one_line(home: StokerHome) -> None:
    home.start(gpus="0-1")
    ran = home.cli("add", "--notify", "--", "true")
    assert ran.code == 2 and "stoker config set notify" in ran.err
    waiting = home.add("--hold", "--", "true")
    ran = home.cli("edit", str(waiting), "--notify")
    assert ran.code == 2 and "stoker config set notify" in ran.err


def test_an_address_is_shown_nowhere(home: StokerHome, web: Sink) -> None:
    web.refuses = True
    job_id = home.add("--notify", "--", "true")
    eventually(lambda: "was not sent" in home.log_text(), "it is logged")
    shown = [
        home.stoker("config"),
        home.stoker("config", "get", "notify", "--json"),
        home.stoker("config", "set", "notify", web.url, "--json"),
        home.stoker("show", str(job_id), "--json"),
        home.cli("config", "set", "notify", "secret-word").err,
        home.log_text(),
        Path(home.home.root, "notify", "journal").read_text(),
    ]
    for text in shown:
        assert "secret-word" not in text and "hidden-topic" not in text
    assert "json://***" in shown[0]


def test_an_address_can_be_read_from_stdin(home: StokerHome) -> None:
    home.start(gpus="0-1")
    ran = home.cli("config", "set", "notify", "-", stdin=b"json://a/b\njson://c/d\n")
    assert ran.out + ran.err == "notify is json://*** json://***\n"
