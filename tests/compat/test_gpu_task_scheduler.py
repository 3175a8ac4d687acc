"""GPUTaskScheduler: what its description documents, run as it is written there."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat.gpu_task_project import FOLDERS, INSTANCES, write_project
from library_home import fifo, output_of, run_python, tell
from stoker_home import StokerHome, lines_of
from waiting import PATIENCE_S, eventually


def _seen(home: StokerHome, root: str = "results") -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (home.work / root).glob("*/seen.json")]


def _start(home: StokerHome, *words: str) -> str:
    """Run the project; what the scheduler said."""
    ran = run_python(home, *(words or ("main.py",)))
    assert ran.code == 0, ran.err
    return ran.err


def test_the_description_as_it_is_written(home: StokerHome) -> None:
    write_project(home.work)
    console = _start(home)  # No GPU is declared: those of the configuration declare themselves.
    seen = _seen(home)
    by_folder = {str(one["config"]): one for one in seen}
    assert set(by_folder) == {str(instance) for instance in INSTANCES}
    assert {one["gpu"] for one in seen} <= {"0", "1", "2"}
    assert {one["agg"] for one in seen} == {"Agg"}
    assert sorted(path.name for path in (home.work / "results").iterdir()) == sorted(FOLDERS)
    for folder in FOLDERS:
        assert "training" in (home.work / "results" / folder / "worker.log").read_text()
    assert os.listdir(home.work / "temp") == []
    log = (home.work / "scheduler.log").read_text()
    assert log == console
    for folder in FOLDERS:
        begin = re.search(rf"^(.*) INFO gpu(\d) receives task {folder}$", log, re.MULTILINE)
        end = re.search(rf"^(.*) INFO gpu(\d) finishes task {folder}$", log, re.MULTILINE)
        assert begin and end and begin[2] == end[2] and begin.start() < end.start()
        assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d", begin[1])
    # A folder that is there is not made again, unless that is forced.
    done = home.work / "results" / FOLDERS[0] / "seen.json"
    done.unlink()
    said = _start(home)
    assert said.count("skips task") == 4 and not done.exists()
    (home.work / "config.py").write_text(
        (home.work / "config.py").read_text().replace('"gpu":', '"force_rerun": True, "gpu":')
    )
    assert "skips" not in _start(home)
    assert done.exists()


def test_a_gpu_has_one_instance_at_a_time_and_all_of_them_are_used(reused: StokerHome) -> None:
    config = "config = {'scheduler_config': {'gpu': ['0', '1']}, 'test_config': [{'n': range(8)}]}"
    write_project(reused.work, config=config)
    _start(reused)
    seen = _seen(reused)
    assert len(seen) == 8 and {one["gpu"] for one in seen} == {"0", "1"}
    for gpu in ("0", "1"):
        mine = sorted((one["begin"], one["end"]) for one in seen if one["gpu"] == gpu)
        for (_, end), (begin, _) in itertools.pairwise(mine):
            assert end <= begin


def test_two_instances_with_the_same_folder_run_once(reused: StokerHome) -> None:
    config = """config = {
        "scheduler_config": {"gpu": ["0", "1"], "ignored_keys_for_folder_name": ["seed"]},
        "test_config": [{"a": [1], "seed": [1, 2, 3]}],
    }"""
    write_project(reused.work, config=config)
    said = _start(reused)
    assert len(_seen(reused)) == 1
    assert said.count("finishes task") == 1 and said.count("skips task") == 2


def test_pairs_of_gpus_and_mixtures_each_run_on_one_entry(home: StokerHome) -> None:
    config = """config = {
        "scheduler_config": {"gpu": [["1", "0"], "2", ["3", "4"]]},
        "test_config": [{"n": list(range(9))}],
    }"""
    write_project(home.work, config=config)
    said = _start(home)
    assert {one["gpu"] for one in _seen(home)} <= {"1,0", "2", "3,4"}
    assert len(_seen(home)) == 9
    assert "gpu1,0 receives task" in said and "gpu3,4 finishes task" in said


def test_a_gpu_that_is_named_twice_runs_two_at_a_time(reused: StokerHome) -> None:
    path = fifo(reused.work)
    write_project(
        reused.work,
        config="config = {'scheduler_config': {'gpu': ['0', '0']}, 'test_config': [{'n': [1, 2]}]}",
        my_gpu_task=f"""
from gpu_task_scheduler.gpu_task import GPUTask
class MyGPUTask(GPUTask):
    def main(self):
        open({str(path)!r}).read()
""",
    )
    process = subprocess.Popen([sys.executable, "main.py"], env=reused.env, cwd=reused.work)
    log = reused.work / "scheduler.log"
    eventually(lambda: sum("receives" in line for line in lines_of(log)) == 2, "both run")
    tell(path)
    eventually(lambda: _told_all(path, process), "both have ended")
    assert process.wait(PATIENCE_S) == 0


def _told_all(path: str, process: subprocess.Popen[bytes]) -> bool:
    """Tell whoever still reads; True once the scheduler has ended."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        pass
    return process.poll() is not None


def test_all_other_settings_are_followed(reused: StokerHome) -> None:
    config = """config = {
        "scheduler_config": {
            "gpu": ["0"],
            "result_root_folder": "out/deep",
            "temp_folder": "scratch",
            "log_file": "console.txt",
            "scheduler_log_file_path": "logs.txt",
            "test_config_string_indicator": "=",
            "test_config_string_separator": ";",
            "config_string_value_maxlen": 3,
        },
        "test_config": [{"name": ["abcdef"]}],
    }"""
    write_project(reused.work, config=config)
    _start(reused)
    folder = reused.work / "out/deep/name=abc;"
    assert "training" in (folder / "console.txt").read_text()
    assert "finishes task name=abc;" in (reused.work / "logs.txt").read_text()
    assert (reused.work / "scratch").is_dir()
    assert not any((reused.work / name).exists() for name in ("temp", "results", "scheduler.log"))


def test_logs_can_be_switched_off(home: StokerHome) -> None:
    config = """config = {"scheduler_config": {
        "gpu": ["0"], "log_file": None, "scheduler_log_file_path": None}}"""
    write_project(home.work, config=config, my_gpu_task=_task("print('to the job')"))
    assert "finishes task" in _start(home)
    assert not (home.work / "scheduler.log").exists()
    assert list((home.work / "results").iterdir()) == []
    assert home.log_of(1) == "to the job\n"  # Stoker's own log of the job has it.


def _task(main: str, env: str = "return {}") -> str:
    return f"""
import os, sys
from gpu_task_scheduler.gpu_task import GPUTask
class MyGPUTask(GPUTask):
    def required_env(self):
        {env}
    def main(self):
        {main}
"""


ONE = "config = {'scheduler_config': {'gpu': ['0']}, 'test_config': [{'n': [1]}]}"


def test_the_required_environment_is_there_from_the_start_of_the_process(
    reused: StokerHome,
) -> None:
    env = """self.note = os.path.join(self._work_dir, "note")
        open(self.note, "w").close()
        return {"MY_FLAG": self._config["n"], "MPLBACKEND": "svg", "PYTHONHASHSEED": "0"}"""
    main = """print(os.environ["MY_FLAG"], os.environ["MPLBACKEND"], os.path.exists(self.note))
        print(sys.flags.hash_randomization, b"MY_FLAG=1" in open("/proc/self/environ", "rb").read())
        print(os.environ["CUDA_VISIBLE_DEVICES"])"""
    write_project(reused.work, config=ONE, my_gpu_task=_task(main, env))
    _start(reused)
    assert (reused.work / "results/n-1,/worker.log").read_text() == "1 svg True\n0 True\n0\n"


def test_a_class_by_name_is_imported_only_in_the_worker(reused: StokerHome) -> None:
    top = "open('imported-by-%d' % __import__('os').getpid(), 'w').close()\n"
    main = """
import os
from config import config
from gpu_task_scheduler.gpu_task_scheduler import GPUTaskScheduler
GPUTaskScheduler(config=config, gpu_task_class="my_gpu_task:MyGPUTask").start()
print(os.path.exists("imported-by-%d" % os.getpid()))
"""
    task = top + _task("print('by name', os.environ['FLAG'])", "return {'FLAG': 'up'}")
    write_project(reused.work, config=ONE, my_gpu_task=task, main=main)
    assert output_of(run_python(reused, "main.py")) == "False\n"
    assert (reused.work / "results/n-1,/worker.log").read_text() == "by name up\n"


def test_a_class_in_the_script_itself_which_is_not_run_again(reused: StokerHome) -> None:
    main = """
with open("runs.txt", "a") as file:
    file.write("run\\n")
from config import config
from gpu_task_scheduler.gpu_task_scheduler import GPUTaskScheduler
from gpu_task_scheduler.gpu_task import GPUTask

NAME = "here"

class MyGPUTask(GPUTask):
    def __init__(self, config, work_dir):
        super().__init__(config, work_dir)
        self.extra = NAME
    def required_env(self):
        return {"FLAG": "up"}
    def main(self):
        import os
        print(self.extra, os.environ["FLAG"], self._config["n"])

GPUTaskScheduler(config=config, gpu_task_class=MyGPUTask).start()
"""
    write_project(reused.work, config=ONE, main=main)
    _start(reused)
    assert (reused.work / "runs.txt").read_text() == "run\n"
    assert (reused.work / "results/n-1,/worker.log").read_text() == "here up 1\n"


def test_a_class_in_a_package(reused: StokerHome) -> None:
    package = reused.work / "tasks" / "gan"
    package.mkdir(parents=True)
    (reused.work / "tasks" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("from .task import MyGPUTask\n")
    (package / "size.py").write_text("SIZE = 8\n")
    task = _task("from .size import SIZE; print('size', SIZE)")
    (package / "task.py").write_text(task)
    main = """
from config import config
from tasks.gan import MyGPUTask
from gpu_task_scheduler.gpu_task_scheduler import GPUTaskScheduler
GPUTaskScheduler(config, MyGPUTask).start()
"""
    write_project(reused.work, config=ONE, main=main)
    _start(reused)
    assert (reused.work / "results/n-1,/worker.log").read_text() == "size 8\n"


def test_a_test_that_fails_is_told_and_the_others_go_on(reused: StokerHome) -> None:
    config = "config = {'scheduler_config': {'gpu': ['0']}, 'test_config': [{'n': [1, 2, 3]}]}"
    main = """
from config import config
from my_gpu_task import MyGPUTask
from gpu_task_scheduler.gpu_task_scheduler import GPUTaskScheduler
print(GPUTaskScheduler(config=config, gpu_task_class=MyGPUTask).start())
"""
    task = _task("print(6 / (2 - self._config['n']))")
    write_project(reused.work, config=config, my_gpu_task=task, main=main)
    ran = run_python(reused, "main.py")
    assert output_of(ran) == "['n-2,']\n"
    assert "gpu0 fails task n-2,: ZeroDivisionError: division by zero" in ran.err
    assert ran.err.count("finishes task") == 2
    log = (reused.work / "results/n-2,/worker.log").read_text()
    assert "my_gpu_task.py" in log and "ZeroDivisionError" in log


def test_ctrl_c_ends_the_tests_and_what_never_began_is_run_the_next_time(
    reused: StokerHome,
) -> None:
    path = fifo(reused.work)
    config = "config = {'scheduler_config': {'gpu': ['0']}, 'test_config': [{'n': [1, 2]}]}"
    task = _task(f"open({str(path)!r}).read()")
    write_project(reused.work, config=config, my_gpu_task=task)
    process = subprocess.Popen(
        [sys.executable, "main.py"], env=reused.env, cwd=reused.work, stderr=subprocess.PIPE
    )
    log = reused.work / "scheduler.log"
    eventually(lambda: any("receives" in line for line in lines_of(log)), "the first runs")
    eventually(lambda: (reused.work / "results/n-1,").exists(), "it has its folder")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0 and b"KeyboardInterrupt" in errors
    assert {job["state"] for job in reused.jobs().values()} == {"cancelled"}
    told = "\n".join(lines_of(log))
    assert "gpu0 fails task n-1," in told and "fails task n-2," not in told
    assert "INFO task n-2, was not started" in told
    assert os.listdir(reused.work / "results") == ["n-1,"]
    (reused.work / "my_gpu_task.py").write_text(_task("print('now')"))
    said = _start(reused)
    assert "finishes task n-1," in said, "what was interrupted is run again"
    assert "finishes task n-2," in said and "skips" not in said
    assert os.listdir(reused.work / "results" / "n-1,") == ["worker.log"]
    assert _start(reused).count("skips task") == 2


def test_a_gpu_that_only_a_killed_scheduler_named_is_forgotten_after_its_last_job(
    home: StokerHome,
) -> None:
    path = fifo(home.work)
    config = "config = {'scheduler_config': {'gpu': ['66']}, 'test_config': [{'n': [1, 2]}]}"
    write_project(home.work, config=config, my_gpu_task=_task(f"open({str(path)!r}).read()"))
    process = subprocess.Popen([sys.executable, "main.py"], env=home.env, cwd=home.work)
    log = home.work / "scheduler.log"
    eventually(lambda: any("receives" in line for line in lines_of(log)), "the first runs")
    process.kill()
    process.wait()
    assert [gpu["id"] for gpu in home.call("gpus")["gpus"]] == ["66"]
    for job_id in sorted(home.jobs()):
        home.until_state(job_id, "running")
        Path(path).write_text("go on")
        home.until_final(job_id)
    eventually(lambda: home.call("gpus")["gpus"] == [], "GPU 66 is forgotten")


def test_other_jobs_of_the_user_and_the_scheduler_never_share_a_gpu(home: StokerHome) -> None:
    path = fifo(home.work)
    home.start(gpus="0")
    other = home.submit("cat", path)
    home.until_state(other, "running")
    write_project(home.work, config=ONE, my_gpu_task=_task("print('alone')"))
    process = subprocess.Popen([sys.executable, "main.py"], env=home.env, cwd=home.work)
    eventually(lambda: len(home.jobs()) == 2, "it is queued")
    assert home.jobs()[2]["state"] == "waiting"
    tell(path)
    assert process.wait(PATIENCE_S) == 0
    assert home.job(2)["started_at_ms"] >= home.job(1)["ended_at_ms"]


def test_a_gpu_that_does_not_exist_is_refused_before_anything_runs(home: StokerHome) -> None:
    home.start(gpus="0,1")
    write_project(home.work)
    ran = run_python(home, "main.py")
    assert ran.code == 1 and "there is no GPU 2" in ran.err
    assert ran.err.count("\n") == 1 and "Traceback" not in ran.err
    assert ran.err == (home.work / "scheduler.log").read_text()
    assert home.jobs() == {} and not (home.work / "results").exists()


@pytest.mark.parametrize("gpu", ["[]", "[[]]", "'0'", "None", "2"])
def test_a_configuration_without_gpus_is_refused_in_a_line(reused: StokerHome, gpu: str) -> None:
    write_project(reused.work, config=f"config = {{'scheduler_config': {{'gpu': {gpu}}}}}")
    ran = run_python(reused, "main.py")
    assert ran.code == 1 and ran.err.count("\n") == 1
    assert ran.err.startswith("gpu_task_scheduler: ") and 'e.g. "gpu": ["0"]' in ran.err


@pytest.mark.parametrize("name", ["my_gpu_task", "my_gpu_task:", ":MyGPUTask"])
def test_a_name_that_names_no_class_is_refused(name: str) -> None:
    from gpu_task_scheduler.gpu_task_scheduler import GPUTaskScheduler
    from stoker.errors import UsageError

    with pytest.raises(UsageError, match="does not name a task"):
        GPUTaskScheduler({"scheduler_config": {"gpu": ["0"]}}, name)


def test_a_class_that_can_not_be_imported_fails_its_instances_with_the_reason(
    reused: StokerHome,
) -> None:
    main = """
from config import config
from gpu_task_scheduler.gpu_task_scheduler import GPUTaskScheduler
GPUTaskScheduler(config=config, gpu_task_class="nowhere:MyGPUTask").start()
"""
    write_project(reused.work, config=ONE, main=main)
    assert "ModuleNotFoundError: No module named 'nowhere'" in _start(reused)
    assert Path(reused.work, "results/n-1,/worker.log").exists()


def test_the_schedulers_log_tells_when_a_gpu_has_no_more_to_do(home: StokerHome) -> None:
    for gpus, names in (("['0', '1']", ["0", "1"]), ("[['0', '1'], '2']", ["0,1", "2"])):
        config = f"config = {{'scheduler_config': {{'gpu': {gpus}, 'force_rerun': True}}, "
        write_project(home.work, config=config + "'test_config': [{'n': [1, 2, 3]}]}")
        said = _start(home)
        ends = re.findall(r"INFO gpu(\S+) finished$", said, re.MULTILINE)
        assert sorted(ends) == names
        assert said.rstrip().endswith("finished")
    assert home.call("gpus")["gpus"] == [], "GPUs that it named are there as long as it is"


def test_instances_may_be_asked_for_as_with_the_original(reused: StokerHome) -> None:
    from gpu_task_scheduler.config_manager import ConfigManager

    root = str(reused.work / "results")
    manager = ConfigManager(
        {
            "scheduler_config": {"gpu": ["0"], "result_root_folder": root},
            "test_config": [{"n": [1, 2]}],
        }
    )
    assert manager.get_next_config(create_dir=False)["config"] == {"n": 1}
    assert manager.get_next_config(create_dir=True)["config"] == {"n": 2}
    assert not os.path.exists(root)
