"""`stoker.Task`, `stoker.grid` and `stoker.run_grid`."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from library_home import fifo, library, output_of, run_script, tell, until_told
from stoker import JobFailed, grid, run_grid
from stoker.errors import Failed, UsageError
from stoker.library import channel as channel_module
from stoker.library.calls import Calls
from stoker.library.channel import channel
from stoker.library.task import TaskCall
from stoker_home import StokerHome
from waiting import PATIENCE_S, eventually

__all__ = ["library"]

MY_TASK = """
import os
import stoker

class MyTask(stoker.Task):
    options = {"gpus": 2}

    def env(self):
        self.seed = 42
        return {"MODE": self.params["mode"], "PYTHONHASHSEED": "7"}

    def run(self):
        (self.folder / "trace.txt").write_text(os.environ["CUDA_VISIBLE_DEVICES"])
        if self.params["mode"] == "bad":
            raise ValueError("bad mode")
        return os.environ["MODE"], self.seed, hash("x") == EXPECTED

EXPECTED = __import__("subprocess").run(
    [__import__("sys").executable, "-c", "print(hash('x'))"],
    env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True).stdout
EXPECTED = int(EXPECTED)
"""


def count(**params: int) -> int:
    with open("count.txt", "a", encoding="utf-8") as file:
        file.write(f"{params}\n")
    if params.get("b") == 3:
        raise ValueError("three")
    return sum(params.values())


def test_a_task_has_its_point_its_folder_its_gpus_and_its_environment(
    library: StokerHome,
) -> None:
    (library.work / "my_task.py").write_text(MY_TASK)
    script = """
import stoker
from my_task import MyTask
for future in stoker.run_grid(MyTask, stoker.grid(mode=["fast", "slow"])):
    print(future.result(), future.gpus)
"""
    printed = output_of(run_script(library, script)).splitlines()
    assert [line.partition(") ")[0] for line in printed] == [
        "('fast', 42, True",
        "('slow', 42, True",
    ]
    folders = sorted((library.work / "results").iterdir())
    assert [folder.name.partition("~")[0] for folder in folders] == ["mode=fast", "mode=slow"]
    assert {(folder / "trace.txt").read_text() for folder in folders} == {"0,1", "2,3"}
    assert json.loads((folders[0] / "params.json").read_text()) == {"mode": "fast"}
    assert pickle.loads((folders[0] / "result.pkl").read_bytes()) == ("fast", 42, True)


def test_a_task_in_the_script_itself_works_with_an_environment_of_its_own(
    library: StokerHome,
) -> None:
    script = """
import os, stoker

class Here(stoker.Task):
    def env(self):
        return {"MODE": "own"}
    def run(self):
        return os.environ["MODE"], self.params["x"], type(self).__module__

print([f.result() for f in stoker.run_grid(Here, stoker.grid(x=[1, 2]), gpus=0)])
"""
    wanted = "[('own', 1, '__main__'), ('own', 2, '__main__')]\n"
    assert output_of(run_script(library, script)) == wanted


def test_a_task_by_name_is_imported_only_by_its_jobs(library: StokerHome) -> None:
    (library.work / "heavy.py").write_text(
        "import os, stoker\nopen('imported-by-%d' % os.getpid(), 'w').close()\n"
        "class Heavy(stoker.Task):\n    def run(self):\n        return self.params['x'] * 2\n"
        "def double(x):\n    return x * 2\n"
    )
    script = """
import os, stoker
for name in ("heavy:Heavy", "heavy:double"):
    print([f.result() for f in stoker.run_grid(name, stoker.grid(x=[1, 2]), folder=name[6:])])
print(os.path.exists("imported-by-%d" % os.getpid()))
"""
    assert output_of(run_script(library, script)) == "[2, 4]\n[2, 4]\nFalse\n"


def test_points_that_succeeded_are_not_run_again_and_failed_ones_are(library: StokerHome) -> None:
    def results() -> list[object]:
        futures = run_grid(count, grid(a=[1, 2], b=[3, 4]), gpus=0)
        return [future.exception(PATIENCE_S) or future.result() for future in futures]

    first, second = results(), results()
    assert [str(one) for one in first] == ["three", "5", "three", "6"]
    assert [str(one) for one in second] == ["three", "5", "three", "6"]
    lines = (library.work / "count.txt").read_text().splitlines()
    assert len(lines) == 6
    done = run_grid(count, grid(a=[1], b=[4]))[0]
    assert done.done() and done.job_id is None and done.log() == "" and not done.cancel()
    again = run_grid(count, grid(a=[1], b=[4]), rerun=True)[0]
    assert again.result(PATIENCE_S) == 5 and again.job_id is not None


def test_the_same_point_twice_is_run_once(library: StokerHome) -> None:
    first, second = run_grid(count, [{"a": 1}, {"a": 1}])
    assert first is second and first.result(PATIENCE_S) == 1


def test_jobs_of_a_grid_show_their_parameters(library: StokerHome) -> None:
    (future,) = run_grid(count, [{"a": 1}], name="point")
    future.result(PATIENCE_S)
    job = library.job(future.job_id or 0)
    assert (job["params"], job["name"]) == ({"a": 1}, "point")


def test_a_result_of_before_is_gone_when_its_point_is_run_again_and_killed(
    library: StokerHome,
) -> None:
    def fragile(fail: str) -> str:
        import os

        if os.path.exists(fail):
            os._exit(9)
        return "fine"

    points = [{"fail": str(library.work / "fail")}]
    assert run_grid(fragile, points)[0].result(PATIENCE_S) == "fine"
    Path(points[0]["fail"]).touch()
    with pytest.raises(JobFailed):
        run_grid(fragile, points, rerun=True)[0].result(PATIENCE_S)
    (folder,) = (library.work / "results").iterdir()
    assert not (folder / "result.pkl").exists()


def test_what_is_no_task_is_refused_and_nothing_is_queued(library: StokerHome) -> None:
    for task in ("my_task", "my_task:", 5):
        with pytest.raises(UsageError):
            run_grid(task, grid(a=[1]))
    with pytest.raises(UsageError, match="mem"):
        run_grid(count, grid(a=[1]), mem="much")
    assert library.jobs() == {} and not (library.work / "results").exists()
    assert run_grid(count, []) == []


def held_up_at(go: str, n: int) -> str:
    return until_told(go)


def held_up(go: str, fail: bool = False) -> str:
    with open("count.txt", "a", encoding="utf-8") as file:
        file.write("ran\n")
    until_told(go)
    if fail:
        raise ValueError("held up in vain")
    return "told"


IN_ANOTHER_PROGRAM = """
import os, sys, stoker
from stoker.errors import StokerError

def held_up(go, fail=False):
    with open("count.txt", "a") as file:
        file.write("ran\\n")
    with open(go) as pipe:
        pipe.read()
    if fail:
        raise ValueError("held up in vain")
    return "told"

[future] = stoker.run_grid(held_up, [{"go": sys.argv[1], **eval(sys.argv[2])}], gpus=0)
print(future.job_id, flush=True)
if sys.argv[3] == "leave":
    os._exit(0)
print(future.exception() or future.result(), flush=True)
"""


@contextmanager
def other_program(home: StokerHome, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has queued a point, has said its job's number, and waits for it."""
    (home.work / "other.py").write_text(IN_ANOTHER_PROGRAM)
    argv = [sys.executable, "other.py", *words]
    out = subprocess.PIPE
    with subprocess.Popen(argv, env=home.env, cwd=home.work, stdout=out, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def line_of(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def times_run(home: StokerHome) -> int:
    return len((home.work / "count.txt").read_text().splitlines())


def test_a_point_that_is_queued_or_running_is_not_run_a_second_time_beside_it(
    library: StokerHome,
) -> None:
    go = fifo(library.work)
    [first] = run_grid(held_up, [{"go": go}], gpus=0)
    [second] = run_grid(held_up, [{"go": go}], gpus=0)
    [third] = run_grid(held_up, [{"go": go}], gpus=0, rerun=True)
    assert first.job_id == second.job_id == third.job_id
    tell(go)
    results = [future.result(PATIENCE_S) for future in (first, second, third)]
    assert results == ["told"] * 3 and times_run(library) == 1
    assert len(library.jobs()) == 1


def test_of_a_grid_only_the_points_without_a_job_are_queued(library: StokerHome) -> None:
    gos = [fifo(library.work, f"go{number}") for number in range(4)]
    first = run_grid(held_up, grid(go=gos[1:3]))
    again = run_grid(held_up, grid(go=gos))
    assert [again[1].job_id, again[2].job_id] == [future.job_id for future in first]
    assert len(library.jobs()) == len({future.job_id for future in again}) == 4
    for go in gos:
        tell(go)
    assert [future.result(PATIENCE_S) for future in again] == ["told"] * 4
    assert times_run(library) == 4


@pytest.mark.parametrize("stays", ["stay", "leave"])
def test_a_point_that_another_program_has_queued_is_waited_for(
    library: StokerHome, stays: str
) -> None:
    go = fifo(library.work)
    with other_program(library, go, "{}", stays) as program:
        job_id = int(line_of(program))
        if stays == "leave":
            program.wait(PATIENCE_S)
        [future] = run_grid(held_up, [{"go": go}], gpus=0)
        assert future.job_id == job_id
        eventually(future.running, "the future knows that its job runs")
        tell(go)
        assert future.result(PATIENCE_S) == "told"
        if stays == "stay":
            assert line_of(program) == "told"
    assert times_run(library) == 1
    [folder] = (library.work / "results").iterdir()
    assert pickle.loads((folder / "result.pkl").read_bytes()) == "told"
    [done] = run_grid(held_up, [{"go": go}], gpus=0)
    assert done.job_id is None and done.result(0) == "told"


def test_the_failure_of_a_point_that_another_program_has_queued_is_told(
    library: StokerHome,
) -> None:
    go = fifo(library.work)
    with other_program(library, go, "{'fail': True}", "stay") as program:
        line_of(program)
        [future] = run_grid(held_up, [{"go": go, "fail": True}], gpus=0)
        tell(go)
        # The exception itself may be with the other program, which reads it and deletes its file.
        with pytest.raises((ValueError, JobFailed), match="held up in vain"):
            future.result(PATIENCE_S)
        assert line_of(program) == "held up in vain"


def test_a_point_whose_job_is_being_cancelled_is_run_when_that_has_ended(
    library: StokerHome,
) -> None:
    def stubborn(ready: str, go: str) -> str:
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if not os.path.exists(ready):
            Path(ready).touch()
            until_told(go)
        return "second"

    point = {"ready": str(library.work / "ready"), "go": fifo(library.work)}
    [first] = run_grid(stubborn, [point], gpus=0, grace="1h")
    eventually(lambda: os.path.exists(point["ready"]), "the first one is there")
    assert first.cancel()
    other = library.submit("true", gpus=0, hold=True)
    [second] = run_grid(stubborn, [point], gpus=0, after_any=other)
    assert second.job_id != first.job_id
    waiting = library.job(second.job_id or 0)
    library.stoker("release", str(other))
    tell(point["go"])
    assert second.result(PATIENCE_S) == "second"
    assert (waiting["state"], set(waiting["after_any"])) == ("waiting", {first.job_id, other})


@pytest.mark.parametrize("queued_by", ["this program", "another program"])
def test_a_grid_that_can_not_be_queued_whole_cancels_what_it_queued_and_nothing_else(
    library: StokerHome, monkeypatch: pytest.MonkeyPatch, queued_by: str
) -> None:
    go = fifo(library.work)
    points = [{"go": go, "n": n} for n in range(3)]
    folder = library.work / "grid"
    monkeypatch.setattr(channel_module, "_MOST_AT_ONCE", 1)
    [first] = run_grid(held_up_at, points[:1], gpus=0, folder=folder)
    if queued_by == "another program":
        # As such a job is known: its files are not ours.
        channel()._live[first.job_id or 0].calls = None
    write, room = Calls.write, [None] * 2

    def written(calls: Calls, call: bytes, signals: Sequence[int] = ()) -> str:
        if not room:
            raise Failed("the call can't be written: No space left on device", "make room")
        room.pop()
        return write(calls, call)

    monkeypatch.setattr(Calls, "write", written)
    with pytest.raises(Failed, match="No space left"):
        run_grid(held_up_at, points, gpus=0, folder=folder)
    [second] = [job_id for job_id in library.jobs() if job_id != first.job_id]
    assert library.until_final(second)[0]["state"] == "cancelled"
    assert library.job(first.job_id or 0)["state"] == "running" and not first.cancelled()
    tell(go)
    library.until_final(first.job_id or 0)


def test_one_folder_by_two_names_is_one_point_of_one_kind(library: StokerHome) -> None:
    (library.work / "real").mkdir()
    (library.work / "link").symlink_to("real")
    go = fifo(library.work)
    [first] = run_grid(held_up, [{"go": go}], gpus=0, folder=library.work / "real")
    [second] = run_grid(held_up, [{"go": go}], gpus=0, folder=library.work / "link")
    assert first.job_id == second.job_id
    tell(go)
    assert first.result(PATIENCE_S) == "told" and times_run(library) == 1
    assert library.job(first.job_id or 0)["argv"][-1] == f"{__name__}.held_up"


def test_a_job_that_finds_the_result_of_another_keeps_it_and_gives_it(tmp_path: Path) -> None:
    folder = str(tmp_path / "point")

    def run(rerun: bool, value: str) -> object:
        call = TaskCall(lambda: value, {}, folder, rerun)
        assert call.prepare() == {}
        return call()

    assert run(False, "first") == "first"
    assert run(False, "second") == "first"
    assert run(True, "third") == "third"
    assert run(False, "fourth") == "third"


def test_a_folder_is_that_of_one_process_at_a_time(library: StokerHome) -> None:
    go = fifo(library.work)
    [first] = run_grid(held_up, [{"go": go}], gpus=0)
    eventually((library.work / "count.txt").exists, "the first one is in its folder")
    [folder] = (library.work / "results").iterdir()
    with pytest.raises(Failed, match="another job is running this point"):
        TaskCall(held_up, {"go": go}, str(folder), True).prepare()
    tell(go)
    assert first.result(PATIENCE_S) == "told" and (folder / "result.pkl").exists()
