"""`stoker.Executor` is an executor of the standard library's kind."""

from __future__ import annotations

import concurrent.futures
import os
import re
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest

from library_home import fifo, gpus_seen, library, output_of, run_script, tell, until_told
from stoker import Executor, JobFuture
from stoker.errors import UsageError
from stoker_home import StokerHome
from waiting import PATIENCE_S, eventually

__all__ = ["library"]


def test_it_is_an_executor_and_map_keeps_the_order(library: StokerHome) -> None:
    with Executor() as executor:
        assert isinstance(executor, concurrent.futures.Executor)
        assert list(executor.map(pow, range(6), range(6))) == [n**n for n in range(6)]


def test_each_call_has_its_own_gpus(library: StokerHome) -> None:
    with Executor(gpus_per_job=2) as executor:
        seen = [executor.submit(gpus_seen) for _ in range(4)]
    assert {future.result() for future in seen} == {"0,1", "2,3"}


def test_all_keywords_of_submit_are_the_functions(library: StokerHome) -> None:
    def build(name: str, gpus: int) -> str:
        return f"{name} with {gpus}"

    with Executor(gpus_per_job=0) as executor:
        assert executor.submit(build, name="net", gpus=7).result(PATIENCE_S) == "net with 7"


def test_as_completed_gives_what_ends_first(library: StokerHome) -> None:
    path = fifo(library.work)
    with Executor() as executor:
        slow = executor.submit(until_told, path)
        quick = executor.submit(gpus_seen)
        order = concurrent.futures.as_completed([slow, quick], PATIENCE_S)
        assert next(order) is quick
        tell(path)
        assert next(order) is slow


def test_calls_of_a_chunk_share_a_job(library: StokerHome) -> None:
    def where(number: int) -> tuple[int, str]:
        return number, os.environ["STOKER_JOB_ID"]

    with Executor() as executor:
        found = list(executor.map(where, range(7), chunksize=3))
    assert [number for number, _ in found] == list(range(7))
    assert len({job for _, job in found}) == 3
    assert len(library.jobs()) == 3


def test_calls_of_a_chunk_have_the_classes_of_the_script_by_name(library: StokerHome) -> None:
    script = """
import pickle, stoker

class Net:
    weights = [1, 2, 3]

def saved(number):
    return pickle.dumps(Net())

with stoker.Executor(gpus_per_job=0) as executor:
    print([type(pickle.loads(data)) is Net for data in executor.map(saved, range(2), chunksize=2)])
"""
    assert output_of(run_script(library, script)) == "[True, True]\n"


def test_a_call_that_raises_ends_the_map_and_cancels_the_rest(library: StokerHome) -> None:
    path = fifo(library.work)

    def first_fails(number: int) -> None:
        if number == 0:
            raise ValueError("zero")
        until_told(path)

    with Executor(max_running=1) as executor:
        results = executor.map(first_fails, range(5))
        with pytest.raises(ValueError, match="zero"):
            next(results)
    states = [job["state"] for job in library.jobs().values()]
    assert states == ["failed", *["cancelled"] * 4]


def test_a_map_that_is_given_up_cancels_what_is_left(library: StokerHome) -> None:
    path = fifo(library.work)
    with Executor(max_running=1) as executor:
        results = executor.map(until_told, [path] * 3)
        with pytest.raises(TimeoutError):
            next(executor.map(until_told, [path], timeout=0.05))
        assert isinstance(results, Iterator)
        tell(path)
        assert next(results) == "told"
        results.close()  # type: ignore[attr-defined]
    states = [job["state"] for job in library.jobs().values()]
    assert states == ["succeeded", "cancelled", "cancelled", "cancelled"]


def test_at_most_so_many_run_at_a_time(library: StokerHome) -> None:
    path = fifo(library.work)
    with Executor(gpus_per_job=0, cpus=0, max_running=2) as executor:
        futures = [executor.submit(until_told, path) for _ in range(4)]
        eventually(lambda: sum(future.running() for future in futures) == 2, "two run")
        reason = library.job(futures[-1].job_id or 0)["reason"]
        assert "2" in reason and executor.group in reason
        for future in futures:
            future.cancel()


def test_an_executor_that_has_ended_leaves_no_limit_behind(library: StokerHome) -> None:
    with Executor(gpus_per_job=0, max_running=1) as executor:
        [listed] = library.call("groups")["groups"]
        assert (listed["group"], listed["max_running"]) == (executor.group, 1)
    assert library.call("groups")["groups"] == []
    with Executor(gpus_per_job=0, max_running=1, group="kept"):
        pass
    assert [one["group"] for one in library.call("groups")["groups"]] == ["kept"]


def test_no_daemon_is_started_only_to_lift_a_limit(library: StokerHome) -> None:
    with Executor(gpus_per_job=0, max_running=1):
        library.stoker("daemon", "stop")
    eventually(lambda: not library.processes(), "the daemon is gone, and no other is there")


def test_shutdown_with_cancel_futures_cancels_what_waits_and_lets_the_rest_finish(
    library: StokerHome,
) -> None:
    path = fifo(library.work)
    executor = Executor(max_running=1)
    running, waiting = executor.submit(until_told, path), executor.submit(gpus_seen)
    eventually(running.running, "it runs")
    executor.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(CancelledError):
        waiting.result(PATIENCE_S)
    tell(path)
    assert running.result(PATIENCE_S) == "told"
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(gpus_seen)


def test_when_the_block_is_left_no_job_of_it_runs(library: StokerHome) -> None:
    with Executor() as executor:
        future = executor.submit(until_told, fifo(library.work))
        eventually(future.running, "it runs")
        future.cancel()
    assert library.job(future.job_id or 0)["state"] == "cancelled"


def test_ctrl_c_in_the_block_cancels_its_jobs(library: StokerHome) -> None:
    futures: list[JobFuture[str]] = []

    def interrupted() -> None:
        with Executor(max_running=1) as executor:
            pipes = [fifo(library.work, name) for name in "ab"]
            futures.extend(executor.submit(until_told, pipe) for pipe in pipes)
            eventually(futures[0].running, "it runs")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [library.job(f.job_id or 0)["state"] for f in futures] == ["cancelled"] * 2


def test_bad_options_are_refused_when_the_executor_is_made(library: StokerHome) -> None:
    for options, words in (
        ({"gpus": 2}, "gpus_per_job"),
        ({"gpus_per_job": "many"}, "gpus"),
        ({"max_running": 0}, "max_running"),
        ({"memory": "8G"}, "memory"),
    ):
        with pytest.raises(UsageError, match=words):
            Executor(**options)


def test_an_empty_map_is_empty(library: StokerHome) -> None:
    with Executor() as executor:
        assert list(executor.map(pow, [], [])) == []


def test_jobs_queued_by_a_script_that_ends_go_on_without_it(stoker: StokerHome) -> None:
    path = fifo(stoker.work)
    script = """
import stoker, sys

def work(path):
    with open(path) as pipe:
        pipe.read()
    with open("done.txt", "w") as file:
        file.write("done")

print(stoker.submit(work, sys.argv[1]).job_id)
"""
    job_id = int(output_of(run_script(stoker, script, path)))
    calls = os.path.join(stoker.home.root, "calls")
    tell(path)
    assert stoker.until_final(job_id)[0]["state"] == "succeeded"
    assert (stoker.work / "done.txt").read_text() == "done"
    assert [name for _, _, names in os.walk(calls) for name in names if ".result" in name]
    stoker.stoker("rm", str(job_id))
    stoker.stoker("config", "set", "keep-results", "7d,9G")  # It looks at all that there is.
    eventually(lambda: not os.listdir(calls), "nothing is left of it")


def test_what_still_waits_is_kept_for_its_worker_when_others_clear_up(
    library: StokerHome,
) -> None:
    script = "import stoker; print(stoker.submit(print, 'late', hold=True).job_id)"
    job_id = int(output_of(run_script(library, script)))
    output_of(run_script(library, "import stoker; stoker.submit(print).result()"))
    library.call("release", select={"ids": [str(job_id)]})
    assert library.until_final(job_id)[0]["state"] == "succeeded"
    assert library.log_of(job_id) == "late\n"


def test_a_forked_child_has_a_channel_of_its_own(library: StokerHome) -> None:
    script = """
import os, stoker
print(stoker.submit(str.upper, "parent").result(), flush=True)
pid = os.fork()
if pid == 0:
    print(stoker.submit(str.upper, "child").result(), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print(stoker.submit(str.upper, "again").result())
"""
    assert output_of(run_script(library, script)) == "PARENT\nCHILD\nAGAIN\n"


def test_many_calls_are_queued_at_once_and_each_may_have_options_of_its_own(
    library: StokerHome,
) -> None:
    with Executor(gpus_per_job=0, cpus=1, priority=3) as executor:
        futures = executor.submit_many(pow, [2, 3], [5, 2])
        large = executor.options(gpus=2, name="large").submit(gpus_seen)
        usual = executor.submit(gpus_seen)
        many = executor.options(priority=4).submit_many(pow, [2] * 3, range(3))
    assert [future.result(0) for future in futures] == [32, 9]
    assert large.result(0) == "0,1" and usual.result(0) == "", "others are as they were"
    assert [future.result(0) for future in many] == [1, 2, 4]
    ids = [future.job_id or 0 for future in futures]
    assert ids[1] == ids[0] + 1
    assert futures[0].job()["submitted_at_ms"] == futures[1].job()["submitted_at_ms"]
    job = large.job()
    assert (job["name"], job["priority"], job["group"]) == ("large", 3, executor.group)
    assert many[0].job()["priority"] == 4
    assert futures[0].job()["params"] == {"base": 2, "exp": 5}
    assert futures[0].job()["command"] == "builtins.pow(base=2, exp=5)"
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.options(gpus=1).submit(gpus_seen)
    for name, hint in {
        "gpsu": "did you mean gpus", "gpus_per_job": "write gpus=", "max_running": "Executor(max_",
    }.items():  # fmt: skip
        wrong: dict[str, Any] = {name: 1}
        with pytest.raises(UsageError, match=re.escape(hint)):
            executor.options(**wrong)
