"""`stoker.Task`, `stoker.grid` and `stoker.run_grid`."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from library_home import library, output_of, run_script
from stoker import JobFailed, grid, run_grid
from stoker.errors import UsageError
from stoker_home import StokerHome
from waiting import PATIENCE_S

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
