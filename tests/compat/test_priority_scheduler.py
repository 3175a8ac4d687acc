"""The priority scheduler's CSV, as its description has it: every option, every promise."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fakegpu.build import Built
from stoker.compat.priority_scheduler import main
from stoker_home import Ran, StokerHome, lines_of
from waiting import PATIENCE_S, eventually

# A training file that supports `epochs` and `id`, and records what it saw.
TRAIN = """\
echo "start $* gpu=$CUDA_VISIBLE_DEVICES mps=$STOKER_MPS \
threads=$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE in=$PWD" >> "$RECORD"
echo "end $*" >> "$RECORD"
"""
HEADER = "Directory,Executable,Filename,Epochs,Priority\n"


@dataclass(frozen=True)
class Lab:
    stoker: StokerHome
    record: Path

    def run(self, *words: str) -> Ran:
        ran = self.stoker.cli("batch", *words, env={"RECORD": str(self.record)})
        assert ran.code == 0, ran
        return ran

    def lines(self, kind: str) -> list[str]:
        return [line for line in lines_of(self.record) if line.startswith(kind)]

    def ids(self, kind: str = "start") -> list[int]:
        return [int(line.split("--id=")[1].split()[0]) for line in self.lines(kind)]


@pytest.fixture
def lab(stoker: StokerHome) -> Lab:
    for name in ("code1.sh", "code2.sh"):
        (stoker.work / name).write_text(TRAIN)
    return Lab(stoker, stoker.root / "record")


def row(filename: str = "code1.sh", epochs: int = 2, priority: int = 1) -> str:
    return f".,/bin/sh,{filename},{epochs},{priority}\n"


def test_fifty_tasks_taken_twenty_at_a_time_run_as_two_batches_of_twenty_and_one_of_ten(
    lab: Lab,
) -> None:
    (lab.stoker.work / "commands.csv").write_text(HEADER + row() * 50)
    lab.run("--csv", "commands.csv", "--num", "20")
    events = [(line.split()[0], int(line.split("--id=")[1].split()[0])) for line in
              lines_of(lab.record)]  # fmt: skip
    assert sorted(lab.ids()) == list(range(1, 51))
    batch_of = {number: (number - 1) // 20 for number in range(1, 51)}
    ended = {0: 0, 1: 0, 2: 0}
    for kind, number in events:
        batch = batch_of[number]
        if kind == "end":
            ended[batch] += 1
        elif batch:
            assert ended[batch - 1] == 20, f"{number} began before the batch before it was over"
    assert ended == {0: 20, 1: 20, 2: 10}


def test_a_batch_is_sorted_by_priority_and_the_next_one_waits_so_that_nothing_starves(
    lab: Lab,
) -> None:
    priorities = [5, 3, 9, 1, 0, 2]
    rows = "".join(row(epochs=10 + n, priority=p) for n, p in enumerate(priorities))
    (lab.stoker.work / "commands.csv").write_text(HEADER + rows)
    lab.run("--csv", "commands.csv", "--num", "3", "--on", "0")
    epochs = [line.split("--epochs=")[1].split()[0] for line in lab.lines("start")]
    assert epochs == ["11", "10", "12", "14", "13", "15"]
    assert lab.ids() == [1, 2, 3, 4, 5, 6]


def test_ids_go_on_counting_across_runs(lab: Lab) -> None:
    (lab.stoker.work / "commands.csv").write_text(HEADER + row() * 3)
    lab.run("--csv", "commands.csv")
    lab.stoker.stoker("rm", "1-3")
    lab.stoker.stoker("daemon", "restart")
    lab.run("--csv", "commands.csv")
    assert sorted(lab.ids()) == [1, 2, 3, 4, 5, 6]


def test_each_task_runs_in_its_own_directory_with_its_own_executable(lab: Lab) -> None:
    other = lab.stoker.root / "other project"
    other.mkdir()
    (other / "code3.py").write_text(
        "import os, sys\n"
        "with open(os.environ['RECORD'], 'a') as file:\n"
        "    print('start', *sys.argv[1:], sys.executable, os.getcwd(), file=file)\n"
    )
    (lab.stoker.work / "commands.csv").write_text(
        HEADER + f"{other},-1,code3.py,4,1\n" + f"{other},{sys.executable},code3.py,5,2\n" + row()
    )
    lab.run("--csv", "commands.csv", "--on", "0")
    first, second, third = sorted(lab.lines("start"), key=lambda line: line.split("--id=")[1])
    # Executable -1 is the interpreter that runs Stoker, which is that of the tests.
    assert first == f"start --epochs=4 --id=1 {sys.executable} {other}"
    assert second.startswith("start --epochs=2 --id=2 gpu=0 ")
    assert second.endswith(f"in={lab.stoker.work}")
    assert third == f"start --epochs=5 --id=3 {sys.executable} {other}"


@pytest.mark.parametrize(
    ("header", "above"), [("0", HEADER), ("None", ""), ("1", "runs\n" + HEADER)]
)
def test_the_header_is_in_the_row_that_is_named_or_there_is_none(
    lab: Lab, header: str, above: str
) -> None:
    (lab.stoker.work / "commands.csv").write_text(above + row(epochs=8))
    lab.run("--csv", "commands.csv", "--header", header)
    assert [line.split("--epochs=")[1].split()[0] for line in lab.lines("start")] == ["8"]


def test_mps_is_used_with_its_thread_percentage(lab: Lab, built: Built) -> None:
    # The daemon looks for the control program on its own PATH.
    lab.stoker.stoker("daemon", "stop")
    lab.stoker.env["PATH"] = f"{built.bin_dir}:{lab.stoker.env['PATH']}"
    lab.stoker.stoker("daemon", "start")
    (lab.stoker.work / "commands.csv").write_text(HEADER + row())
    lab.run("--csv", "commands.csv", "--num", "20", "--header", "0", "--mps",
            "--thread_percentage", "50")  # fmt: skip
    lab.run("--csv", "commands.csv")
    with_mps, without = lab.lines("start")
    assert "mps=1 threads=50" in with_mps
    assert "mps= threads= " in without
    servers = lab.stoker.root / "home" / "mps"
    eventually(lambda: not list(servers.iterdir()), "the server went with its last task")


def test_the_default_tasks_are_those_of_scheduler_files_commands_1_csv(lab: Lab) -> None:
    files = lab.stoker.work / "scheduler_files"
    files.mkdir()
    (files / "commands.csv").write_text(HEADER + row(epochs=6))
    (files / "commands_1.csv").write_bytes((files / "commands.csv").read_bytes())
    lab.run()
    assert len(lab.lines("start")) == 1
    assert (files / "commands_1.csv").read_text() == HEADER + row(epochs=6)


PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-priority-scheduler.md").read_text()


def test_its_own_command_lines_run_as_they_are(lab: Lab, built: Built) -> None:
    work = lab.stoker.work
    lab.stoker.stoker("daemon", "stop")
    path = f"{Path(sys.executable).parent}:{built.bin_dir}:{lab.stoker.env['PATH']}"
    lab.stoker.env |= {"PATH": path, "RECORD": str(lab.record)}
    lab.stoker.stoker("daemon", "start")
    script = re.search(r"^```python[^\n]*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert script is not None
    (work / "scheduler.py").write_text(script[1])
    (work / "scheduler_files").mkdir()
    (work / "scheduler_files" / "commands.csv").write_text(HEADER + row(epochs=3))
    subprocess.run("cp commands.csv commands_1.csv", shell=True, cwd=work / "scheduler_files")
    lines = re.findall(r"^\| `(python scheduler.py[^`]*)`", PAGE, re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        header = "" if "--header None" in line else HEADER
        (work / "commands.csv").write_text(header + row(epochs=4))
        done = subprocess.run(["sh", "-c", line], cwd=work, env=lab.stoker.env, timeout=PATIENCE_S)
        assert done.returncode == 0, line
    seen = [line.split("gpu=")[1].split(" ", 1)[1] for line in lab.lines("start")]
    assert ["mps=1 threads=50" in one for one in seen] == ["--mps" in line for line in lines]
    assert lab.ids() == [1, 2, 3, 4]


@pytest.mark.parametrize("words", [["--num"], ["--nope"], ["more"], ["--csv", "missing.csv"]])
def test_a_bad_command_line_of_its_own_is_one_line_and_nothing_is_queued(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_tasks_that_reserve_memory_run_beside_each_other_as_far_as_it_goes(lab: Lab) -> None:
    lab.stoker.stoker("config", "set", "gpus", "0:8G")
    (lab.stoker.work / "wait.sh").write_text(
        'touch "here$3"; until [ -e here--id=1 ] && [ -e here--id=2 ]; do sleep 0.05; done\n'
    )
    rows = ".,/bin/sh,wait.sh x,2,1,4G\n" * 2
    (lab.stoker.work / "commands.csv").write_text(HEADER.strip() + ",mem\n" + rows)
    lab.run("--csv", "commands.csv")


def test_a_bad_row_is_named_and_nothing_is_queued(lab: Lab) -> None:
    (lab.stoker.work / "commands.csv").write_text(
        HEADER + row() + row("missing.sh") + ".,no-python,code1.sh,2,1\n"
    )
    ran = lab.stoker.cli("batch", "--csv", "commands.csv")
    assert ran.code == 2
    assert "commands.csv, line 3: there is no file 'missing.sh'" in ran.err
    assert lab.stoker.jobs() == {}
    (lab.stoker.work / "commands.csv").write_text(HEADER + row() + ".,no-python,code1.sh,2,1\n")
    ran = lab.stoker.cli("batch", "--csv", "commands.csv")
    assert ran.code == 2
    assert "commands.csv, line 3: the command 'no-python' was not found" in ran.err
    assert lab.stoker.jobs() == {}


def test_ids_go_on_where_an_existing_installation_has_stopped(lab: Lab) -> None:
    files = lab.stoker.work / "scheduler_files"
    files.mkdir()
    (files / "counter.txt").write_text("3\n")
    (lab.stoker.work / "commands.csv").write_text(HEADER + row() * 2)
    lab.run("--csv", "commands.csv", "--on", "0")
    assert lab.ids() == [3, 4]
    assert int((files / "counter.txt").read_text()) == 5, "the older tool could go on, too"
    (files / "counter.txt").unlink()
    lab.run("--csv", "commands.csv", "--on", "0")
    assert lab.ids()[2:] == [5, 6]
    (files / "counter.txt").write_text("2")
    ran = lab.run("--csv", "commands.csv", "--on", "0")
    assert lab.ids()[4:] == [7, 8], "the higher of both counts"
    assert "counter.txt says 2, but ids below 7 were already used: continuing with 7" in ran.err
    (files / "counter.txt").write_text("four")
    ran = lab.stoker.cli("batch", "--csv", "commands.csv")
    assert ran.code == 2 and "counter.txt is not a number" in ran.err
    assert len(lab.stoker.jobs()) == 6


def test_a_part_of_the_threads_asks_for_mps(lab: Lab, built: Built) -> None:
    lab.stoker.stoker("daemon", "stop")
    lab.stoker.env |= {
        "PATH": f"{built.bin_dir}:{lab.stoker.env['PATH']}", "RECORD": str(lab.record),
    }  # fmt: skip
    (lab.stoker.work / "commands.csv").write_text(HEADER + row())
    drop_in = [sys.executable, "-c", "import sys; from stoker.compat.priority_scheduler import "
               "main; sys.exit(main())", "--csv", "commands.csv"]  # fmt: skip
    options: dict[str, Any] = {"cwd": lab.stoker.work, "env": lab.stoker.env, "timeout": PATIENCE_S}
    alone = subprocess.run([*drop_in, "--thread_percentage", "40"], check=False, **options)
    assert alone.returncode == 0
    assert "mps=1 threads=40" in lab.lines("start")[0]
    for words in (["--thread_percentage", "140"], ["--mps", "no", "--thread_percentage", "40"]):
        refused = subprocess.run(
            [*drop_in, *words], check=False, stderr=subprocess.PIPE, text=True, **options
        )
        assert refused.returncode == 2 and refused.stderr.count("\n") == 1
        assert "--thread_percentage" in refused.stderr or "thread-percentage" in refused.stderr
    assert len(lab.stoker.jobs()) == 1


def test_what_a_failed_task_printed_is_shown(lab: Lab) -> None:
    (lab.stoker.work / "fails.sh").write_text("echo step 1; echo broken pipe to X >&2; exit 3\n")
    (lab.stoker.work / "commands.csv").write_text(HEADER + row() + row("fails.sh"))
    ran = lab.stoker.cli("batch", "--csv", "commands.csv", env={"RECORD": str(lab.record)})
    assert ran.code == 1
    assert "  step 1\n  broken pipe to X\n" in ran.err
    assert "the last output of job 1" not in ran.err


def test_a_file_without_rows_is_nothing_to_do_and_a_missing_one_is_named(lab: Lab) -> None:
    (lab.stoker.work / "commands.csv").write_text(HEADER)
    ran = lab.stoker.cli("batch", "--csv", "commands.csv")
    assert ran.code == 0 and "commands.csv has no rows" in ran.err
    refused = lab.stoker.cli("batch")
    assert refused.code == 2 and "scheduler_files/commands_1.csv" in refused.err
