"""Calls with a checkpoint: what it returns is run next, and the future stays pending."""

from __future__ import annotations

import functools
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import stoker
from library_home import library
from stoker import JobFailed
from stoker.command_lines import call_of
from stoker_home import StokerHome
from waiting import PATIENCE_S, eventually

__all__ = ["library"]


class Counts:
    """Counts until its file is there; what it has counted is in what its checkpoint returns."""

    def __init__(self, answer: Any = "self") -> None:
        self.attempts: list[str] = []
        self.answer = answer

    def __call__(self, go: str, until: int) -> list[str]:
        self.attempts.append(os.environ["STOKER_ATTEMPT"])
        Path(f"{go}.{self.attempts[-1]}").touch()
        while len(self.attempts) < until and not os.path.exists(go):
            time.sleep(0.01)
        return self.attempts

    def checkpoint(self, go: str, until: int) -> Any:
        if self.answer == "partial":
            return functools.partial(finish, self.attempts, go=go)
        if self.answer == "delayed":
            return Delayed(finish, self.attempts, go=go)
        if self.answer == "error":
            raise ValueError("it can't be saved")
        return self if self.answer == "self" else self.answer


class Delayed:
    """As submitit has it."""

    def __init__(self, function: Any, *args: Any, **kwargs: Any) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs


def finish(attempts: list[str], *, go: str) -> list[str]:
    return [*attempts, f"finished in {os.environ['STOKER_ATTEMPT']}"]


class Trains(stoker.Task):
    """A task that goes on in its second attempt."""

    steps = 0

    def env(self) -> dict[str, str]:
        return {"MODE": "fast"}

    def run(self) -> tuple[int, str, str]:
        while self.steps < 2:
            Path(self.folder, f"step{self.steps}").touch()
            time.sleep(0.01)
        return self.steps, os.environ["MODE"], os.environ["STOKER_ATTEMPT"]

    def checkpoint(self) -> Trains:
        self.steps += 1
        return self


def until_begun(go: Path, attempt: int) -> None:
    eventually(Path(f"{go}.{attempt}").exists, f"attempt {attempt} has begun")


def until_step(library: StokerHome, step: int) -> None:
    eventually(lambda: list(library.work.glob(f"results/*/step{step}")), f"step {step} has begun")


def saved(library: StokerHome, job: int) -> list[str]:
    return os.listdir(library.job(job)["checkpoint_dir"])


@pytest.mark.parametrize("warm", [False, True])
def test_a_call_goes_on_with_what_its_checkpoint_has_returned(
    library: StokerHome, warm: bool
) -> None:
    go = library.work / "go"
    executor = stoker.Executor(gpus_per_job=0, signal="USR2@60s", slice="1h", warm=warm)
    future = executor.submit(Counts(), str(go), 3)
    job = future.job_id or 0
    for attempt in (1, 2):
        until_begun(go, attempt)
        library.stoker("requeue", str(job))
    assert future.result(PATIENCE_S) == ["1", "2", "3"]
    job_said = library.until_final(job)[0]
    assert [one["state"] for one in job_said["attempts"]] == ["requeued", "requeued", "succeeded"]
    assert [one["exit_code"] for one in job_said["attempts"]] == [75, 75, 0]
    assert saved(library, job) == [], "it has returned, and is not wanted any more"


@pytest.mark.parametrize("answer", ["partial", "delayed"])
def test_another_call_may_be_what_is_run_next(library: StokerHome, answer: str) -> None:
    go = library.work / "go"
    future = stoker.submit(Counts(answer), str(go), 9, gpus=0)
    until_begun(go, 1)
    library.stoker("requeue", str(future.job_id))  # Without --signal it gets SIGTERM.
    assert future.result(PATIENCE_S) == ["1", "finished in 2"]


@pytest.mark.parametrize(
    ("answer", "says"), [(None, "must return what is to be called next"), ("error", "can't be s")]
)
def test_a_checkpoint_that_goes_wrong_is_the_error_of_its_call(
    library: StokerHome, answer: Any, says: str
) -> None:
    go = library.work / "go"
    future = stoker.submit(Counts(answer), str(go), 9, gpus=0)
    until_begun(go, 1)
    os.kill(library.until_pid(future.job_id or 0), signal.SIGUSR2)
    with pytest.raises((TypeError, ValueError), match=says):
        future.result(PATIENCE_S)


def test_a_time_limit_is_no_end_for_a_call_with_a_checkpoint(library: StokerHome) -> None:
    go = library.work / "go"
    how: Any = {"time_limit": "3s", "signal": "USR1@2s", "gpus": 0}
    future = stoker.submit(Counts(), str(go), 2, **how)
    # On a busy machine the signal may come before the call has begun, and then it begins anew.
    first, second = map(int, future.result(PATIENCE_S))
    ended = [one["state"] for one in library.until_final(future.job_id or 0)[0]["attempts"]]
    assert first < second == len(ended)
    assert ended == ["requeued"] * (second - 1) + ["succeeded"]
    plain = stoker.submit(time.sleep, 600, time_limit="200ms", grace="0s", gpus=0)
    with pytest.raises(JobFailed, match="time limit"):
        plain.result(PATIENCE_S)


def test_a_task_goes_on_with_its_state_and_environment(library: StokerHome) -> None:
    [future] = stoker.run_grid(Trains, [{"a": 1}], gpus=0)
    job = future.job_id or 0
    for attempt in (1, 2):
        until_step(library, attempt - 1)
        library.stoker("requeue", str(job))
    assert future.result(PATIENCE_S) == (2, "fast", "3")
    assert library.job(job)["name"] == "Trains a=1"
    [again] = stoker.run_grid(Trains, [{"a": 1}], gpus=0)
    assert again.result(0) == (2, "fast", "3")


def test_a_retry_goes_on_and_a_call_that_has_returned_begins_anew(library: StokerHome) -> None:
    go = library.work / "go"
    future = stoker.submit(Counts(), str(go), 9, gpus=0)
    job = future.job_id or 0
    until_begun(go, 1)
    library.stoker("requeue", str(job))
    until_begun(go, 2)
    assert len(saved(library, job)) == 1
    library.stoker("cancel", str(job))
    library.until_final(job)
    go.touch()
    library.stoker("retry", str(job))
    assert stoker.future(job).result(PATIENCE_S)[0] == "1"
    library.until_final(job)
    library.stoker("retry", str(job))
    assert stoker.future(job).result(PATIENCE_S) == ["4"]


def test_processes_that_a_call_has_forked_save_nothing_of_it(library: StokerHome) -> None:
    class Forks(Counts):
        def __call__(self, go: str, until: int) -> list[str]:
            if (pid := os.fork()) == 0:
                Path(f"{go}.child").touch()  # Before, a signal may be lost to Python's own fork.
                time.sleep(600)
            found = super().__call__(go, until)
            _, status = os.waitpid(pid, 0)
            return [*found, str(os.WTERMSIG(status))]

    go = library.work / "go"
    future = stoker.submit(Forks(), str(go), 9, gpus=0, grace="60s")
    pid = library.until_pid(future.job_id or 0)
    until_begun(go, 1)
    eventually(Path(f"{go}.child").exists, "the child has begun")
    [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(int(child), signal.SIGTERM)
    go.touch()
    assert future.result(PATIENCE_S) == ["1", str(int(signal.SIGTERM))]


def test_no_room_for_a_checkpoint_is_one_line_and_the_call_goes_on_from_before(
    library: StokerHome,
) -> None:
    go = library.work / "go"
    future = stoker.submit(Counts(), str(go), 9, gpus=0)
    job = future.job_id or 0
    until_begun(go, 1)
    directory, file = library.job(job)["checkpoint_dir"], call_of(library.job(job)["argv"])
    assert file is not None
    name = f"{Path(file[2]).parent.name}.{Path(file[2]).name}.new"
    os.mkdir(os.path.join(directory, name))  # It can't be written to.
    library.stoker("requeue", str(job))
    until_begun(go, 2)
    log = Path(library.job(job)["attempts"][0]["log"]).read_text()
    assert "the checkpoint of the call can't be written" in log and log.count("\n") == 1
    go.touch()
    assert future.result(PATIENCE_S) == ["2"]


def test_a_call_without_a_checkpoint_ends_by_its_signal_as_ever(library: StokerHome) -> None:
    (library.work / "my_tasks.py").write_text("""
import pathlib, stoker, time

class Plain(stoker.Task):
    def run(self):
        (self.folder / "begun").touch()
        time.sleep(600)
""")
    script = """
import stoker
[future] = stoker.run_grid("my_tasks:Plain", [{"a": 1}], gpus=0, time_limit="3s", grace="0s")
print(future.job_id, future.exception())
"""
    from library_home import output_of, run_script

    assert "time limit" in output_of(run_script(library, script))
