"""`stoker.submit`: a call becomes a job, and its future is resolved by the job's end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from library_home import fifo, gpus_seen, library, run_script, tell, until_told
from own_loop import run_apart
from stoker import Client, Executor, JobFailed, JobFuture, run_grid, submit
from stoker.errors import StokerError, UsageError
from stoker.library.channel import channel
from stoker.library.failures import RemoteTraceback
from stoker_home import StokerHome
from waiting import PATIENCE_S, eventually

__all__ = ["library"]


class OutOfLuck(Exception):
    """An exception of the user's."""


class NeedsTwo(Exception):
    """One that pickle can't make again from its arguments."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def unlucky(depth: int) -> None:
    if depth:
        unlucky(depth - 1)
    raise OutOfLuck("no luck at all")


def raises_needs_two() -> None:
    raise NeedsTwo(1, 2)


def test_a_call_runs_as_a_job_on_its_gpus_and_its_future_has_the_result(
    library: StokerHome,
) -> None:
    future = submit(gpus_seen, gpus=2, name="look")
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(PATIENCE_S) == "0,1"
    job = library.job(future.job_id or 0)
    assert (job["name"], job["state"], job["gpus"]) == ("look", "succeeded", ["0", "1"])
    assert future.gpus == ("0", "1")


def test_keywords_that_are_options_are_the_jobs_and_all_others_the_functions(
    library: StokerHome,
) -> None:
    def report(*args: int, lr: float, seed: int = 0) -> tuple[Any, ...]:
        return args, lr, seed, os.environ.get("MODE")

    future = submit(report, 1, 2, lr=0.5, seed=3, gpus=0, env={"MODE": "fast"}, priority=-1)
    assert future.result(PATIENCE_S) == ((1, 2), 0.5, 3, "fast")
    job = future.job()
    assert (job["priority"], job["gpus"], job["name"]) == (
        -1,
        [],
        report.__qualname__.replace("<locals>.", ""),
    )


def call_files() -> set[str]:
    directory = channel().calls.directory
    return set(os.listdir(directory)) if os.path.isdir(directory) else set()


def test_a_wrong_argument_is_refused_at_once_and_nothing_is_queued(library: StokerHome) -> None:
    of_others = call_files()  # those of the tests before, which are cleared away in their time
    with pytest.raises(TypeError, match="unexpected keyword argument 'gpu'"):
        submit(gpus_seen, gpu=1)
    with pytest.raises(TypeError, match="did you mean gpus"):
        submit(gpus_seen, gpu=1)
    with pytest.raises(TypeError, match=r"argument 'nmae'; did you mean name\?"):
        submit(gpus_seen, nmae="x")
    with pytest.raises(UsageError) as refused:
        Executor(gpus_per_jbo=1)  # type: ignore[call-arg]
    assert refused.value.hint == "did you mean gpus_per_job?"
    with pytest.raises(UsageError) as refused, Client(library.home.root) as client:
        client.sweep("true", {"a": [1]}, smaples=3)  # type: ignore[call-arg]
    assert refused.value.hint == "did you mean samples?"
    with pytest.raises(UsageError) as refused:
        run_grid(len, [], foldr="x")  # type: ignore[call-arg]
    assert refused.value.hint == "did you mean folder?"
    with pytest.raises(TypeError, match="argument"):
        run_grid(gpus_seen, [{"y": 1}])
    with pytest.raises(UsageError, match="gpus"):
        submit(gpus_seen, gpus=1.5)
    with pytest.raises(UsageError, match="needs 9 GPUs"):
        submit(gpus_seen, gpus=9)
    with pytest.raises(TypeError):
        submit(5)  # type: ignore[arg-type]
    assert library.jobs() == {}
    assert call_files() <= of_others | {"lock", "groups", "jobs"}


def test_an_exception_comes_back_as_itself_with_the_remote_traceback_as_its_cause(
    library: StokerHome,
) -> None:
    future = submit(unlucky, 2)
    with pytest.raises(OutOfLuck, match="no luck at all") as caught:
        future.result(PATIENCE_S)
    cause = caught.value.__cause__
    assert isinstance(cause, RemoteTraceback)
    assert cause.text.count("in unlucky") == 3
    assert "worker.py" not in cause.text
    job = future.job()
    assert (job["state"], job["exit_code"]) == ("failed", 1)
    assert "no luck at all" in future.log()


def test_an_exception_that_can_not_be_carried_over_is_told_in_its_own_words(
    library: StokerHome,
) -> None:
    error = submit(raises_needs_two).exception(PATIENCE_S)
    assert str(error) == "NeedsTwo: 1 and 2"
    assert error is not None and "raise NeedsTwo(1, 2)" in str(error.__cause__)


def test_a_result_that_can_not_be_pickled_is_an_error_that_says_so(library: StokerHome) -> None:
    with pytest.raises(TypeError, match="the result of the call can't be pickled"):
        submit(threading.Lock).result(PATIENCE_S)


def test_a_lambda_and_a_closure_can_be_called_and_returned(library: StokerHome) -> None:
    factor = 6
    assert submit(lambda x: x * factor, 7).result(PATIENCE_S) == 42
    adder: Callable[[int], int] = submit(lambda: lambda x: x + factor).result(PATIENCE_S)
    assert adder(1) == 7


def test_a_process_that_ends_without_a_result_is_told_with_its_exit_code_and_last_lines(
    library: StokerHome,
) -> None:
    def crash() -> None:
        print("about to fall over")
        os._exit(41)

    with pytest.raises(JobFailed) as caught:
        submit(crash).result(PATIENCE_S)
    error = caught.value
    assert isinstance(error, StokerError)
    assert (error.job_state, error.job_exit_code, error.job_signal) == ("failed", 41, None)
    assert "exit code 41" in str(error) and "about to fall over" in str(error)


def test_a_killed_call_is_told_with_its_signal(library: StokerHome) -> None:
    def suicide() -> None:
        os.kill(os.getpid(), 9)

    with pytest.raises(JobFailed) as caught:
        submit(suicide).result(PATIENCE_S)
    assert caught.value.job_signal == 9


def test_sys_exit_in_a_call_does_not_end_the_program_that_waits_for_it(
    library: StokerHome,
) -> None:
    def leave(code: int) -> None:
        raise SystemExit(code)

    with pytest.raises(JobFailed) as caught:
        submit(leave, 3).result(PATIENCE_S)
    assert caught.value.job_exit_code == 3
    with pytest.raises(JobFailed, match="ended without a result"):
        submit(leave, 0).result(PATIENCE_S)


def test_a_call_over_its_time_limit_is_told_as_that(library: StokerHome) -> None:
    path = fifo(library.work)
    future = submit(until_told, path, time_limit=timedelta(seconds=0.2), grace=0)
    with pytest.raises(JobFailed, match="time limit"):
        future.result(PATIENCE_S)


def test_a_waiting_call_can_be_cancelled(library: StokerHome) -> None:
    future = submit(gpus_seen, hold=True)
    assert not future.running() and "waiting" in repr(future)
    assert future.cancel()
    assert future.cancelled() and future.done()
    assert future.cancel()
    with pytest.raises(CancelledError):
        future.result(0)
    assert library.until_final(future.job_id or 0)[0]["state"] == "cancelled"


def test_a_running_call_can_be_cancelled_and_its_process_ends(library: StokerHome) -> None:
    future = submit(until_told, fifo(library.work))
    eventually(future.running, "it runs")
    assert "running on GPU 0" in repr(future)
    assert future.cancel()
    assert concurrent.futures.wait([future], PATIENCE_S).not_done == set()
    assert library.until_final(future.job_id or 0)[0]["state"] == "cancelled"


def test_a_finished_call_can_not_be_cancelled(library: StokerHome) -> None:
    future = submit(gpus_seen)
    future.result(PATIENCE_S)
    assert not future.cancel() and not future.cancelled()


def test_a_call_whose_job_somebody_cancels_is_cancelled(library: StokerHome) -> None:
    held = submit(gpus_seen, hold=True)
    running = submit(until_told, fifo(library.work))
    eventually(running.running, "it runs")
    library.stoker("cancel", str(held.job_id), str(running.job_id))
    for future in (held, running):
        with pytest.raises(CancelledError):
            future.result(PATIENCE_S)


def test_a_call_that_is_skipped_says_whose_fault_it_was(library: StokerHome) -> None:
    first = submit(unlucky, 0)
    second = submit(gpus_seen, after=first)
    with pytest.raises(JobFailed, match="skipped") as caught:
        second.result(PATIENCE_S)
    assert caught.value.job_state == "skipped"


def test_a_call_may_wait_for_others_by_their_futures(library: StokerHome) -> None:
    path = fifo(library.work)
    first = submit(until_told, path)
    second = submit(lambda: "after", after=[first], name="second")
    eventually(first.running, "it runs")
    assert not second.done()
    tell(path)
    assert second.result(PATIENCE_S) == "after"
    assert first.done()


def test_a_call_with_retries_has_the_result_of_the_attempt_that_succeeded(
    library: StokerHome,
) -> None:
    def works_at_last(marker: str) -> str:
        if not os.path.exists(marker):
            open(marker, "w").close()
            raise OutOfLuck("not yet")
        return os.environ["STOKER_ATTEMPT"]

    future = submit(works_at_last, str(library.work / "marker"), retries=1)
    assert future.result(PATIENCE_S) == "2"


def test_the_result_of_an_earlier_attempt_is_not_taken_for_that_of_a_killed_one(
    library: StokerHome,
) -> None:
    def worse_and_worse() -> None:
        if os.environ["STOKER_ATTEMPT"] == "2":
            os._exit(7)
        raise OutOfLuck("the first time")

    with pytest.raises(JobFailed, match="exit code 7"):
        submit(worse_and_worse, retries=1).result(PATIENCE_S)


def test_what_a_call_prints_can_be_read_while_it_runs(library: StokerHome) -> None:
    def talk(path: str) -> None:
        print("first line")
        until_told(path)
        print("last line")

    path = fifo(library.work)
    future = submit(talk, path)
    eventually(lambda: "first line\n" in future.log(), "its first line is there")
    tell(path)
    future.result(PATIENCE_S)
    assert future.log() == "first line\nlast line\n"


def test_a_future_can_be_awaited(library: StokerHome) -> None:
    async def main() -> list[str]:
        futures = [asyncio.wrap_future(submit(str.upper, word)) for word in ("a", "b")]
        return await asyncio.gather(*futures)

    assert run_apart(main()) == ["A", "B"]


def test_a_callback_may_submit_further_calls(library: StokerHome) -> None:
    more: list[JobFuture[str]] = []
    told = threading.Event()

    def go_on(done: concurrent.futures.Future[str]) -> None:
        more.append(submit(str.upper, done.result(), group="another"))
        told.set()

    submit(str.lower, "A").add_done_callback(go_on)
    assert told.wait(PATIENCE_S)
    assert more[0].result(PATIENCE_S) == "A"


def test_many_threads_may_submit_at_once(library: StokerHome) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        futures = list(pool.map(lambda n: submit(pow, n, 2, gpus=0, cpus=0), range(24)))
    assert [future.result(PATIENCE_S) for future in futures] == [n * n for n in range(24)]


def test_the_files_of_calls_are_private_and_are_gone_with_their_job(
    library: StokerHome,
) -> None:
    future = submit(gpus_seen, hold=True)
    directory = Path(channel().calls.directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700
    call = max(directory.glob("*.call"), key=lambda path: int(path.stem))
    assert stat.S_IMODE(call.stat().st_mode) == 0o600
    library.call("release", select={"ids": [str(future.job_id)]})
    future.result(PATIENCE_S)
    channel().wait_until_ended({future.job_id or 0})
    result = call.with_name(f"{call.name}.1.result")
    assert stat.S_IMODE(result.stat().st_mode) == 0o600
    library.stoker("rm", str(future.job_id))
    eventually(lambda: not (call.exists() or result.exists()), "they are deleted")


def test_a_model_of_a_class_of_the_script_can_be_saved_by_plain_pickle_in_the_call(
    library: StokerHome,
) -> None:
    from library_home import output_of, run_script

    script = """
import pickle, stoker

class Net:
    def __init__(self):
        self.weights = [1, 2, 3]

def train(path):
    net = Net()
    with open(path, "wb") as file:
        pickle.dump(net, file)
    return net

net = stoker.submit(train, "net.pkl").result()
assert type(net) is Net, type(net)
with open("net.pkl", "rb") as file:
    print(pickle.load(file).weights)
"""
    assert output_of(run_script(library, script)) == "[1, 2, 3]\n"


def test_a_call_can_be_retried_until_its_files_are_gone(library: StokerHome) -> None:
    future = submit(unlucky, 0)
    job = str(future.job_id)
    with pytest.raises(OutOfLuck):
        future.result(PATIENCE_S)
    library.stoker("retry", job)
    assert library.until_final(int(job))[0]["attempt"] == 2
    os.unlink(library.job(int(job))["argv"][3])
    refused = library.cli("retry", job)
    assert refused.code == 1 and refused.err.count("\n") == 1
    assert "its code was deleted" in refused.err and "again in Python" in refused.err
    assert future.job()["attempt"] == 2 and future.job()["state"] == "failed"
    # Of all that have failed, the others are retried.
    other = library.submit("false")
    library.until_final(other)
    assert library.call("retry", select={"all": True})["ids"] == [other]


def test_a_failed_call_whose_script_has_gone_can_be_retried(library: StokerHome) -> None:
    text = """
import os, sys
from stoker import submit

def once_more(marker):
    if not os.path.exists(marker):
        open(marker, "w").close()
        raise SystemExit(3)

submit(once_more, "marker")
os._exit(0)
"""
    assert run_script(library, text).code == 0
    [job] = library.jobs()
    assert library.until_final(job)[0]["exit_code"] == 3
    assert library.call("retry", select={"ids": [str(job)]})["ids"] == [job]
    assert library.until_final(job)[0]["state"] == "succeeded"
