"""`stoker.Client`: everything that the command line can do, from Python."""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path

import pytest

from library_home import fifo, library, tell
from stoker import Client, submit
from stoker.errors import Failed, NotFound, UsageError
from stoker_home import StokerHome, is_running
from waiting import PATIENCE_S, eventually

__all__ = ["library"]

PRINT_GPUS = [sys.executable, "-c", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"]


@pytest.fixture
def client(library: StokerHome) -> Client:
    return Client(library.home.root)


def test_a_command_is_queued_waited_for_and_its_log_read(client: Client) -> None:
    job_id = client.add(PRINT_GPUS, gpus=2, name="look")
    (ended,) = client.wait(job_id, timeout=PATIENCE_S)
    assert (ended["state"], ended["exit_code"]) == ("succeeded", 0)
    assert client.logs(job_id) == "0,1\n"
    assert [job["name"] for job in client.ls()] == ["look"]
    assert client.show("last")[0]["attempts"][0]["gpus"] == ["0", "1"]


def test_a_string_is_for_the_shell_and_run_gives_its_exit_code(client: Client) -> None:
    assert client.run("echo a | tr a b; exit 5") == 5
    assert client.logs("last") == "b\n"
    assert client.run("true", gpus=0) == 0
    assert client.run("kill -9 $$") == 128 + 9


def test_many_are_queued_all_or_none(client: Client) -> None:
    with pytest.raises(UsageError, match="gpus"):
        client.add_many([{"command": "true"}, {"command": "true", "gpus": "some"}])
    with pytest.raises(UsageError, match="no command"):
        client.add_many([{"gpus": 1}])
    assert client.ls() == []
    ids = client.add_many([{"command": "true", "name": f"run-{n}"} for n in range(3)])
    assert len(client.wait(ids, timeout=PATIENCE_S)) == 3
    assert [job["id"] for job in client.ls(name="run-*")] == ids
    assert client.add_many([]) == []


def test_errors_kept_apart_are_read_apart(client: Client, library: StokerHome) -> None:
    job_id = client.add("echo out; echo err >&2", out="o.txt", err=Path("e.txt"))
    client.wait(job_id, timeout=PATIENCE_S)
    assert (client.logs(job_id), client.logs(job_id, err=True)) == ("out\n", "err\n")
    assert (library.work / "e.txt").read_text() == "err\n"


def test_waiting_jobs_are_held_released_edited_and_cancelled(client: Client) -> None:
    client.pause()
    job_id = client.add("echo old")
    assert client.hold(job_id) == [job_id]
    assert client.ls(states="held")[0]["id"] == job_id
    assert client.why(job_id)[0]["text"]
    client.edit(job_id, ["echo", "new"], priority=-2, gpus=0.5)
    assert client.release(job_id) == [job_id]
    other = client.add("echo other")
    assert client.cancel(other) == [other]
    client.resume()
    (job,) = client.wait(job_id, timeout=PATIENCE_S)
    assert job["state"] == "succeeded" and client.logs(job_id) == "new\n"
    shown = client.show(job_id)[0]
    assert (shown["priority"], shown["need"]["share"]) == (-2, 0.5)
    with pytest.raises(UsageError, match="nothing to change"):
        client.edit(job_id)


def test_a_failed_job_is_retried_and_then_forgotten(client: Client) -> None:
    job_id = client.add("exit 3")
    assert client.wait(job_id, timeout=PATIENCE_S)[0]["exit_code"] == 3
    assert client.retry(job_id) == [job_id]
    client.wait(job_id, timeout=PATIENCE_S)
    assert len(client.show(job_id)[0]["attempts"]) == 2
    assert client.rm(job_id) == [job_id]
    with pytest.raises(NotFound):
        client.show(job_id)


def test_jobs_are_narrowed_by_one_state_or_several(client: Client) -> None:
    client.pause()
    ids = client.add_many([{"command": "true", "group": "g"} for _ in range(3)])
    assert client.hold(ids[0], ids[1]) == ids[:2]
    assert client.cancel(group="g", state="waiting") == ids[2:]
    assert client.release(f"{ids[0]}-{ids[2]}", state=["held"]) == ids[:2]
    assert client.hold(ids[0]) == ids[:1]
    for state in ("failed", ["failed", "lost"]):
        with pytest.raises(Failed, match="none of these jobs is failed"):
            client.rm(group="g", state=state)
    with pytest.raises(UsageError, match="there is no state 'hold'"):
        client.cancel(group="g", state="hold")
    assert client.cancel(group="g", state="held,waiting") == ids[:2]
    assert client.retry(group="g", state=("cancelled", "failed")) == ids


def test_a_wait_may_time_out_and_the_client_goes_on(client: Client, library: StokerHome) -> None:
    path = fifo(library.work)
    job_id = client.add(["cat", path])
    with pytest.raises(TimeoutError):
        client.wait(job_id, timeout=0.05)
    tell(path)
    assert client.wait(job_id, timeout=PATIENCE_S)[0]["state"] == "succeeded"


def test_a_wait_goes_on_when_the_daemon_is_killed(client: Client, library: StokerHome) -> None:
    path = fifo(library.work)
    job_id = client.add(["cat", path])
    library.until_state(job_id, "running")
    library.kill_daemon()
    tell(path)
    assert client.wait(job_id, timeout=PATIENCE_S)[0]["state"] == "succeeded"


def test_gpus_are_added_drained_resumed_and_removed(client: Client) -> None:
    client.add_gpus("4:24G", 5)
    assert [gpu["id"] for gpu in client.gpus()] == ["0", "1", "2", "3", "4", "5"]
    client.drain_gpus(4)
    assert {gpu["id"]: gpu["state"] for gpu in client.gpus()}["4"] == "drained"
    client.resume_gpus(4)
    assert {gpu["id"]: gpu["state"] for gpu in client.gpus()}["4"] == "free"
    client.remove_gpus(4, 5)
    eventually(lambda: len(client.gpus()) == 4, "they are gone")


def test_settings_are_read_and_changed(client: Client) -> None:
    assert client.set_config("grace", "10s")
    assert client.config()["grace"].startswith("10")
    before = client.config()["cpus"]
    client.set_config("cpus", 3)
    assert client.config()["cpus"] == "3"
    client.set_config("cpus", None)
    assert client.config()["cpus"] == before


def test_groups_are_paused_and_limited(client: Client, library: StokerHome) -> None:
    client.limit_group("g", 1)
    client.pause("g")
    ids = client.add_many([{"command": "true", "group": "g"}] * 2)
    assert {job["state"] for job in client.ls(group="g")} == {"waiting"}
    client.resume(group="g")
    client.limit_group("g", None)
    assert [job["id"] for job in client.wait(group="g", timeout=PATIENCE_S)] == ids


def test_futures_and_listed_jobs_are_jobs_too(client: Client) -> None:
    future = submit(str.upper, "x", hold=True)
    assert client.show(future)[0]["state"] == "held"
    assert client.release(client.ls()) == [future.job_id]
    assert future.result(PATIENCE_S) == "X"


def test_the_page_is_started_and_tokens_are_made_and_revoked(client: Client) -> None:
    assert client.page()["running"] is False
    address = client.start_page(port=0, read_only=True)
    assert client.page()["running"] and address.startswith(client.page()["url"] + "/enter#")
    token = client.create_token("nightly", read_only=True, lasts_s=3600)
    [kept] = client.tokens()
    assert (kept["name"], kept["read_only"]) == ("nightly", True) and kept["expires_at_ms"]
    question = urllib.request.Request(client.page()["url"] + "/api/status")
    question.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(question, timeout=PATIENCE_S) as answer:
        assert answer.status == 200
    assert client.revoke_tokens("nightly") == [kept["id"]]
    assert client.tokens() == []
    client.create_token("other")
    assert len(client.revoke_tokens()) == 1
    assert client.stop_page() and not client.stop_page()


def test_what_was_learned_is_asked_for_and_forgotten_and_the_cluster_is_tried(
    client: Client,
) -> None:
    assert client.profiles() == []
    assert client.forget_profiles() == []
    with pytest.raises(NotFound):
        client.forget_profiles("no such kind")
    assert {"name", "ok", "text"} <= client.check_cluster()[0].keys()


def test_the_daemon_is_asked_and_stopped(client: Client, library: StokerHome) -> None:
    assert client.daemon()["pid"] == library.daemon_pid()
    assert client.status()["counts"]["running"] == 0
    assert client.call("hello")["home"] == library.home.root
    daemon = library.daemon_pid()
    client.stop_daemon()
    eventually(lambda: not is_running(daemon), "it is gone")
    with Client(library.home.root) as again:
        assert again.ls() == []  # it was started again


def test_errors_are_those_of_the_command_line(client: Client) -> None:
    with pytest.raises(NotFound):
        client.show(9_999_999)
    with pytest.raises(UsageError):
        client.cancel()
    job = client.add("true")
    client.wait(job, timeout=PATIENCE_S)
    with pytest.raises(Failed, match="has ended already"):
        client.cancel(job)


def test_what_is_no_command_is_refused_in_words(client: Client) -> None:
    for command in (3, b"true", None):
        with pytest.raises(UsageError, match="command"):
            client.add(command)  # type: ignore[arg-type]
    assert client.ls(all=True) == []


def test_the_daemons_refusals_name_options_as_keywords(client: Client) -> None:
    for options in (
        {"gpus": 0, "mem": "8G"},
        {"signal": "USR1@2m"},
        {"thread_percentage": 10},
        {"mem_margin": "10%"},
    ):
        with pytest.raises(UsageError) as refused:
            client.add("true", **options)
        assert "--" not in str(refused.value) and list(options)[-1] in str(refused.value)


def test_a_margin_is_refused_where_no_memory_is_measured(client: Client) -> None:
    with pytest.raises(UsageError, match="mem_margin is about measured memory"):
        client.add("true", mem_margin="10%")
    job_id = client.add("true", hold=True)
    with pytest.raises(UsageError, match='add mem="auto"'):
        client.edit(job_id, mem_margin="10%")
    client.edit(job_id, mem="auto", mem_margin="20%")
    client.edit(job_id, mem_margin="30%")
    assert client.show(job_id)[0]["need"]["margin"][0] == 30
    client.cancel(job_id)


def test_jobs_are_told_as_they_end_and_any_is_waited_for(
    client: Client, library: StokerHome
) -> None:
    pipes = [fifo(library.work, f"go{n}") for n in range(3)]
    ids = [client.add(["cat", pipe], gpus=0) for pipe in pipes]
    with pytest.raises(TimeoutError):
        client.wait(ids, any=True, timeout=0.01)
    ended = client.as_completed(*ids)
    tell(pipes[1])
    assert next(ended)["id"] == ids[1]
    [first] = client.wait(*ids, any=True, timeout=PATIENCE_S)
    assert (first["id"], first["state"]) == (ids[1], "succeeded")
    said = library.cli("wait", "--any", *map(str, ids))
    assert (said.code, said.out) == (0, f"{ids[1]}\n")
    said = library.cli("wait", "--any", "--timeout", "10ms", str(ids[0]), str(ids[2]))
    assert said.code == 124 and "none of these jobs has ended" in said.err
    client.cancel(ids[2])
    assert next(ended)["state"] == "cancelled"
    tell(pipes[0])
    assert [job["id"] for job in ended] == [ids[0]]
    assert [job["id"] for job in client.as_completed(*ids)] == ids
    assert len(client.wait(*ids, any=True)) == 3
    with pytest.raises(TimeoutError):
        list(client.as_completed(client.add("true", hold=True), timeout=0.01))
