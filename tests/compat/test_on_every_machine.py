"""The five older tools' commands beside the originals, on every machine.

The other side of `simple_gpu_scheduler` and `simple_hypersearch` is the original itself. The other
four were never published as packages: theirs is what their descriptions promise, written down here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat.conftest import Machine
from compat.gpu_task_project import write_project
from compat.installed import typed
from compat.test_bare_install import script_of
from peers import peers_bin
from stoker_home import Ran, lines_of
from waiting import PATIENCE_S, eventually

BIN = Path(sys.executable).parent
SAID = re.compile(r"Processing command `(.*)` on gpu (\S+)\n")


def meeting(number: int, places: int) -> str:
    """A command that notes its GPU, and waits until as many run as there are places.

    So each of the first ones has a place of its own, and all places are in use.
    """
    return (
        f'echo "{number} on $CUDA_VISIBLE_DEVICES" >> ran.txt; '
        f"until [ $(grep -c . ran.txt) -ge {places} ]; do sleep 0.02; done"
    )


# ---------------------------------------------------------------------- 001: the original itself


def beside(machine: Machine, line: str, text: str = "", place: str = "") -> tuple[Ran, Ran]:
    """What the original and ours do with the same line and commands, each in its own folder."""
    found = []
    for which, folder in (("theirs", peers_bin()), ("ours", BIN)):
        (machine.home.work / place / which).mkdir(parents=True)
        done = subprocess.run(
            ["bash", "-c", f"PATH={folder}:$PATH; {line}"],
            env=machine.home.env | {"MINE": "kept"},
            cwd=machine.home.work / place / which,
            input=text.encode(),
            capture_output=True,
            timeout=PATIENCE_S * 2,
            check=False,
        )
        found.append(Ran(done.returncode, done.stdout.decode(), done.stderr.decode()))
    return found[0], found[1]


def files(machine: Machine, which: str, place: str = "") -> dict[str, list[str]]:
    """What is in a folder; the order of lines is not certain where several commands write."""
    folder = machine.home.work / place / which
    return {path.name: sorted(lines_of(path)) for path in folder.iterdir()}


def test_simple_gpu_scheduler_does_what_the_original_does(new_machine: Machine) -> None:
    for form in ("spaces", "commas", "backwards"):
        as_the_original(new_machine, form)


def as_the_original(new_machine: Machine, form: str) -> None:
    """The same commands run, in the same order, on the same GPUs."""
    ids = new_machine.ids[::-1] if form == "backwards" else new_machine.ids
    commands = [meeting(number, len(ids)) for number in range(len(ids))]
    more = ["echo $MINE > mine.txt; exit 3", "echo shown | tr s S", "echo aside >&2", "umask > u"]
    theirs, ours = beside(
        new_machine,
        f"simple_gpu_scheduler --gpus {(',' if form == 'commas' else ' ').join(ids)}",
        "\n".join([*commands, *more]) + "\n",
        form,
    )
    assert (ours.code, ours.err) == (theirs.code, theirs.err) == (0, "aside\n"), ours
    told, original = SAID.findall(ours.out), SAID.findall(theirs.out)
    first = len(ids)
    # The last of the GPUs is taken first.
    assert told[:first] == original[:first] == list(zip(commands, reversed(ids), strict=True))
    assert sorted(command for command, _ in told) == sorted([*commands, *more])
    assert SAID.sub("", ours.out) == SAID.sub("", theirs.out) == "Shown\n"
    assert files(new_machine, "ours", form) == files(new_machine, "theirs", form)


def test_simple_gpu_scheduler_gives_the_pairs_that_the_original_gives(new_machine: Machine) -> None:
    ids = new_machine.ids
    if len(ids) < 2:
        pytest.skip("one GPU makes no pair")
    pairs = [f"{b},{a}" for a, b in zip(ids[::2], ids[1::2], strict=False)]
    # One place more, of a single GPU, where their number is odd.
    pairs += ids[len(pairs) * 2 :]
    if len(pairs) == 1:
        pytest.skip("one pair is one word, which the original takes for single GPUs")
    commands = [meeting(number, len(pairs)) for number in range(len(pairs))]
    theirs, ours = beside(
        new_machine, f"simple_gpu_scheduler --gpus {' '.join(pairs)}", "\n".join(commands) + "\n"
    )
    assert (ours.code, ours.err) == (theirs.code, theirs.err) == (0, ""), ours
    assert ours.out == theirs.out
    assert files(new_machine, "ours") == files(new_machine, "theirs")


def test_commands_share_a_gpu_that_is_named_twice_as_with_the_original(
    new_machine: Machine,
) -> None:
    text = f"{meeting(1, 2)}\n{meeting(2, 2)}\n"
    for words in ("0,0", "0 0"):
        theirs, ours = beside(new_machine, f"simple_gpu_scheduler --gpus {words}", text, words)
        assert ours == theirs
        assert files(new_machine, "ours", words) == files(new_machine, "theirs", words)


def test_a_search_is_piped_into_simple_gpu_scheduler_as_into_the_original(
    new_machine: Machine,
) -> None:
    line = (
        'simple_hypersearch "echo {lr} {bs} >> ran.txt" --seed 3 --n-samples 5 -p lr 0.1 0.01'
        f" -p bs 32 64 128 | simple_gpu_scheduler --gpus {new_machine.ids[-1]}"
    )
    theirs, ours = beside(new_machine, line)
    assert ours == theirs  # With one GPU, everything is certain.
    ran = [lines_of(new_machine.home.work / which / "ran.txt") for which in ("ours", "theirs")]
    assert ran[0] == ran[1] and len(ran[0]) == 5


def test_a_gpu_that_no_driver_shows_is_refused_and_without_a_driver_it_runs_as_there(
    new_machine: Machine,
) -> None:
    theirs, ours = beside(new_machine, "echo true | simple_gpu_scheduler --gpus 64")
    if not new_machine.shown:
        assert ours == theirs
        return
    assert (ours.code, ours.out) == (2, "")  # The original runs it on a GPU that there is not.
    assert ours.err.startswith("simple_gpu_scheduler: there is no GPU 64; there are 0")
    assert "gpus add" not in ours.err


# ---------------------------------------------------------------------- 000: its description


def test_scheduler_py_does_what_its_description_says(new_machine: Machine) -> None:
    home = new_machine.home
    (home.work / "scheduler.py").write_text(script_of("scheduler-py"))
    (home.work / "scheduler.py").chmod(0o755)
    home.env["PATH"] = f"{BIN}:{home.env['PATH']}"
    folder = home.work / "task"
    folder.mkdir()
    (folder / "test1.py").write_text(
        "import os, sys\n"
        "print(*sys.argv[1:])\n"
        "print(os.environ.get('CUDA_VISIBLE_DEVICES', 'all'), file=sys.stderr)\n"
        "sys.exit(len(sys.argv))\n"
    )
    there = new_machine.shown or 4  # "by default four free GPUs are created"
    all_ids = " ".join(map(str, range(there)))
    ran = typed(home, f'../scheduler.py -t "test1.py -foo 1" --gpu_count {there}', folder)
    assert (ran.out, ran.err, ran.code) == (f"-foo 1 --gpu {all_ids}\n", "all\n", there + 4)
    assert [path.read_text() for path in sorted(folder.glob("????-??-??/*"))] == [ran.err, ran.out]
    refused = typed(home, f'../scheduler.py -t "test1.py" -gc {there + 1}', folder)
    assert refused.code == 2 and refused.err.count("\n") == 1 and not refused.out
    ran = typed(home, '../scheduler.py -v -t "test1.py" -o o.txt -e e.txt', folder)
    assert (folder / "o.txt").read_text() == "--gpu 0\n" and (
        folder / "e.txt"
    ).read_text() == "all\n"
    assert [line.split(":")[0] for line in ran.out.split("\n") if line] == [
        "task", "stdout", "stderr", "start", "end", "total time",
    ]  # fmt: skip
    # "-i 5 3 4 means that total count of GPUs is 5 and GPU 3 and 4 are currently unavailable."
    assert typed(home, "./scheduler.py -i 5 3 4").code == 0
    usable = " ".join(map(str, range(min(3, new_machine.shown or 3))))
    ran = typed(home, f'../scheduler.py -t "test1.py" -gc {len(usable.split())}', folder)
    assert ran.out == f"--gpu {usable}\n"
    # "the task … will be started on free GPUs as soon as possible", whoever asks for them.
    (folder / "meets.sh").write_text(f"{meeting(1, len(usable.split()))}\n")
    many = " ".join('../scheduler.py -t "sh meets.sh" &' for _ in usable.split())
    assert typed(home, f"{many} wait", folder).code == 0
    assert sorted(lines_of(folder / "ran.txt")) == ["1 on "] * len(usable.split())


# ---------------------------------------------------------------------- 002: its description


def test_gpupeasy_does_what_its_description_says(new_machine: Machine) -> None:
    home = new_machine.home
    home.env["PATH"] = f"{BIN}:{home.env['PATH']}"
    (home.work / "startserver.py").write_text(script_of("gpupeasy", "startserver.py"))
    ran = typed(home, "python startserver.py")
    assert ran.code == 0, ran
    # "By default, the back-end server assumes you have 4 CUDA devices (GPUs)."
    there = min(new_machine.shown or 4, 4)
    usable = [str(number) for number in range(there)]
    assert bool(ran.err) == (0 < new_machine.shown < 4), ran.err
    assert [gpu["id"] for gpu in home.call("gpus")["gpus"]] == usable
    # "Each job execution will consume one gpu till it is finished and dump its stdout and stderr"
    jobs = [
        home.add(
            "--name", f"n{n}", "--out", f"{n}.txt", "--", f"echo o; echo e >&2; {meeting(n, there)}"
        )
        for n in range(there + 2)
    ]
    assert {job["state"] for job in home.until_final(*jobs)} == {"succeeded"}
    noted = lines_of(home.work / "ran.txt")
    assert sorted(line.split(" on ")[1] for line in noted[:there]) == usable
    assert {line.split(" on ")[1] for line in noted} == set(usable)
    for number in range(there + 2):
        assert lines_of(home.work / f"{number}.txt") == ["o", "e"]


# ---------------------------------------------------------------------- 003: its description


def test_the_priority_scheduler_does_what_its_description_says(new_machine: Machine) -> None:
    home = new_machine.home
    home.env["PATH"] = f"{BIN}:{home.env['PATH']}"
    (home.work / "scheduler.py").write_text(script_of("priority-scheduler"))
    if not new_machine.shown:
        home.start(gpus="0-1")
    scheduler_files = home.work / "scheduler_files"
    scheduler_files.mkdir()
    (scheduler_files / "counter.txt").write_text("7")
    (home.work / "train").mkdir()
    (home.work / "train" / "code.py").write_text(
        "import os, sys\n"
        "print(*sys.argv[1:], os.environ['CUDA_VISIBLE_DEVICES'], file=open('ran', 'a'))\n"
        "sys.exit('6 epochs' if '--epochs=6' in sys.argv else 0)\n"
    )
    rows = [(3, 9), (4, 1), (5, 2), (6, 1)]
    (scheduler_files / "commands_1.csv").write_text(
        "Directory,Executable,Filename,Epochs,Priority\n"
        + "".join(f"train,-1,code.py,{epochs},{priority}\n" for epochs, priority in rows)
    )
    ran = typed(home, "python scheduler.py --num 2")
    assert ran.code == 1 and "6 epochs" in ran.err, ran
    noted = [line.split() for line in lines_of(home.work / "train" / "ran")]
    # "training is done (sequentially) for a limited number of epochs (default: 2)"
    short = [words for words in noted if words[0] == "--epochs=2"]
    assert [words[1] for words in short] == (["--id=7"] if new_machine.shown else [])
    assert noted[: len(short)] == short
    # "Sorting by priority is done within a batch": 4 and 3 epochs, then 6 and 5.
    by_id = {words[1]: words[0] for words in noted[len(short) :]}
    assert by_id == {f"--id={7 + n}": f"--epochs={epochs}" for n, epochs in enumerate((4, 3, 6, 5))}
    batches = [words[0] for words in noted[len(short) :]]
    assert set(batches[:2]) == {"--epochs=4", "--epochs=3"}
    assert {words[2] for words in noted} <= set(map(str, range(new_machine.shown or 2)))
    assert (scheduler_files / "counter.txt").read_text().strip() == "11"


# ---------------------------------------------------------------------- 004: its description

TASK = """
import json, os, time
from gpu_task_scheduler.gpu_task import GPUTask

class MyGPUTask(GPUTask):
    def required_env(self):
        return {"MINE": "%d" % self._config["n"]}
    def main(self):
        open("here%s" % os.environ["MINE"], "w").close()
        while sum(name.startswith("here") for name in os.listdir(".")) < self._config["places"]:
            time.sleep(0.02)
        with open(os.path.join(self._work_dir, "gpu"), "w") as file:
            file.write(os.environ["CUDA_VISIBLE_DEVICES"] + "\\n")
        print("done", self._config)
"""


@pytest.mark.parametrize("form", ["ids", "pairs"])
def test_gpu_task_scheduler_does_what_its_description_says(new_machine: Machine, form: str) -> None:
    home, ids = new_machine.home, new_machine.ids
    places: list[Any] = list(ids)
    if form == "pairs":
        places = [ids[n : n + 2][::-1] for n in range(0, len(ids), 2)]
    config = {
        "scheduler_config": {"gpu": places},
        "global_config": {"places": len(places)},
        "test_config": [{"n": list(range(len(places) + 2)), "m": ["x"]}],
    }
    write_project(home.work, config=f"config = {json.dumps(config)}", my_gpu_task=TASK)
    ran = typed(home, f"{sys.executable} main.py")
    assert ran.code == 0, ran
    entries = [one if isinstance(one, str) else ",".join(one) for one in places]
    names = [f"m-x,n-{n}," for n in range(len(places) + 2)]
    results = home.work / "results"
    assert sorted(path.name for path in results.iterdir()) == sorted(names)
    gpus = {name: lines_of(results / name / "gpu")[0] for name in names}
    assert sorted(gpus[name] for name in names[: len(places)]) == sorted(entries)
    log = (home.work / "scheduler.log").read_text()
    for name in names:
        assert (results / name / "worker.log").read_text().startswith("done {")
        for does in ("receives", "finishes"):
            assert re.search(rf" INFO gpu{gpus[name]} {does} task {name}$", log, re.MULTILINE)
    assert [re.findall(rf" INFO gpu{one} finished$", log, re.MULTILINE) for one in entries] == [
        [f" INFO gpu{one} finished"] for one in entries
    ]
    # "If force_rerun=False, when the result folder exists, the scheduler will skip the test"
    before = (results / names[0] / "gpu").stat().st_mtime_ns
    assert typed(home, f"{sys.executable} main.py").code == 0
    assert (results / names[0] / "gpu").stat().st_mtime_ns == before


def test_gpu_task_scheduler_names_a_gpu_that_no_driver_shows(new_machine: Machine) -> None:
    home = new_machine.home
    config = "config = {'scheduler_config': {'gpu': ['0', '64']}, 'test_config': [{'n': [1, 2]}]}"
    task = "from gpu_task_scheduler.gpu_task import GPUTask\nclass MyGPUTask(GPUTask): pass\n"
    write_project(home.work, config=config, my_gpu_task=task)
    ran = typed(home, f"{sys.executable} main.py")
    if new_machine.shown:
        assert ran.code == 1 and "there is no GPU 64" in ran.err and ran.err.count("\n") == 1
        assert not (home.work / "results").exists()
    else:
        assert ran.code == 0, ran
        eventually(lambda: not home.call("gpus")["gpus"], "they last as long as the command")
