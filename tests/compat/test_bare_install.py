"""A bare `pip install .` runs the drop-ins of all five older tools, by their own commands."""

from __future__ import annotations

import re
import socket
import urllib.request
from pathlib import Path

import pytest

from compat.gpu_task_project import FOLDERS, write_project
from compat.installed import Installed, empty, installed, typed, use
from fakegpu.build import Built
from gpu_box import Box
from peers import ROOT, peers_bin
from stoker_home import StokerHome, lines_of
from waiting import PATIENCE_S

# What is installed beside Stoker must not grow unnoticed.
DISTRIBUTIONS = {
    "stoker-gpu", "msgspec", "cloudpickle", "nvidia-ml-py", "starlette", "uvicorn",
    "anyio", "click", "h11", "idna", "sniffio", "typing-extensions",
    "PyYAML", "textual", "rich", "pygments", "Pygments", "platformdirs", "markdown-it-py", "mdurl",
    "mdit-py-plugins", "linkify-it-py", "uc-micro-py",
}  # fmt: skip
COMMANDS = {"stoker", "simple_gpu_scheduler", "simple_hypersearch"}
SEEN = """\
import os, sys
with open("seen.txt", "a") as seen:
    print(os.environ.get("CUDA_VISIBLE_DEVICES", "all"), *sys.argv[1:], file=seen)
"""


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed(tmp_path_factory.getbasetemp().parent / "bare-install")


@pytest.fixture
def shell(home: StokerHome, bare: Installed) -> StokerHome:
    """A directory, and a shell that knows no other Stoker than the installed one."""
    use(home, bare)
    where = typed(home, "cd / && python -c 'import stoker; print(stoker.__file__)'")
    assert where.out.startswith(str(bare.root)), where
    return home


def script_of(page: str, name: str = "") -> str:
    """The drop-in file that a migration page shows."""
    text = (ROOT / "docs" / f"coming-from-{page}.md").read_text()
    found = re.search(rf'^```python[^\n]*{name}"?\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_it_installs_three_commands_and_few_packages(bare: Installed) -> None:
    listed = bare.pip("list", "--format=freeze").split()
    assert {line.partition("==")[0].replace("_", "-") for line in listed} <= DISTRIBUTIONS
    assert bare.commands() >= COMMANDS
    for name in COMMANDS:
        first = (bare.bin / name).read_text().splitlines()[0]
        assert first == f"#!{bare.bin}/python", "it runs by the environment's own Python"


def test_scheduler_py_runs_there(shell: StokerHome) -> None:
    (shell.work / "scheduler.py").write_text(script_of("scheduler-py"))
    (shell.work / "scheduler.py").chmod(0o755)
    folder = shell.work / "folder"
    folder.mkdir()
    (folder / "test1.py").write_text("import sys; print(*sys.argv[1:])\n")
    ran = typed(shell, '../scheduler.py -t "test1.py -foo 1 -v --bar 0" --gpu_count 2', folder)
    assert (ran.code, ran.out, ran.err) == (0, "-foo 1 -v --bar 0 --gpu 0 1\n", "")
    [kept] = folder.glob("????-??-??/*.out")
    assert kept.read_text() == ran.out
    assert typed(shell, "./scheduler.py -i 5 3 4").code == 0
    assert {gpu["id"]: gpu["state"] for gpu in shell.call("gpus")["gpus"]} == {
        "0": "free", "1": "free", "2": "free", "3": "drained", "4": "drained",
    }  # fmt: skip
    assert "--gpu_count GPU_COUNT" in typed(shell, "./scheduler.py -h").out


def test_the_gpus_of_a_driver_are_known_there(
    tmp_path: Path, bare: Installed, built: Built
) -> None:
    box = Box(tmp_path, built, devices=2)
    use(box, bare)
    try:
        (box.work / "test1.py").write_text("import sys; print(*sys.argv[1:])\n")
        ran = typed(box, 'python -m stoker.compat.scheduler -t "test1.py" -gc 2')
        assert (ran.code, ran.out) == (0, "--gpu 0 1\n"), ran
        assert [gpu["uuid"] for gpu in box.call("gpus")["gpus"]] == [
            box.driver.uuid(0), box.driver.uuid(1),
        ]  # fmt: skip
    finally:
        box.clean_up()


def test_simple_gpu_scheduler_and_simple_hypersearch_run_there(shell: StokerHome) -> None:
    for name in ("train_model.py", "train_dnn.py"):
        (shell.work / name).write_text(SEEN)
    (shell.work / "gpu_commands.txt").write_text(
        "".join(f"python3 train_model.py --output run_{n}\n" for n in (1, 2, 3))
    )
    ran = typed(shell, "simple_gpu_scheduler --gpus 0 1 2 < gpu_commands.txt")
    assert (ran.code, ran.err) == (0, ""), ran
    assert ran.out == "".join(
        f"Processing command `python3 train_model.py --output run_{n}` on gpu {3 - n}\n"
        for n in (1, 2, 3)
    )
    ran = typed(
        shell,
        'simple_hypersearch "python3 train_dnn.py --lr {lr} --batch_size {bs}" --n-samples 5'
        " -p lr 0.001 0.0005 0.0001 -p bs 32 64 128 | simple_gpu_scheduler --gpus 0,1,2",
    )
    assert (ran.code, ran.err) == (0, ""), ran
    assert len(lines_of(shell.work / "seen.txt")) == 3 + 5


def test_gpupeasys_server_and_page_run_there(shell: StokerHome) -> None:
    (shell.work / "startserver.py").write_text(script_of("gpupeasy", "startserver.py"))
    assert typed(shell, "python startserver.py").code == 0
    assert [gpu["id"] for gpu in shell.call("gpus")["gpus"]] == ["0", "1", "2", "3"]
    ran = typed(shell, "stoker add --name big --out big.txt -- 'echo blah; echo oops >&2'")
    shell.until_final(int(ran.out))
    assert lines_of(shell.work / "big.txt") == ["blah", "oops"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gui = script_of("gpupeasy", "startgui.py").replace("start_gui()", f"start_gui(port={port})")
    (shell.work / "startgui.py").write_text(gui)
    ran = typed(shell, "python startgui.py")
    assert ran.code == 0, ran
    with urllib.request.urlopen(ran.out.partition("#")[0], timeout=PATIENCE_S) as page:
        assert page.status == 200


def test_the_priority_scheduler_runs_there(shell: StokerHome) -> None:
    (shell.work / "scheduler.py").write_text(script_of("priority-scheduler"))
    (shell.work / "code1.py").write_text(SEEN)
    files = shell.work / "scheduler_files"
    files.mkdir()
    header = "Directory,Executable,Filename,Epochs,Priority\n"
    (files / "commands.csv").write_text(header + ".,-1,code1.py,3,2\n.,-1,code1.py,4,1\n")
    typed(shell, "cp scheduler_files/commands.csv scheduler_files/commands_1.csv")
    typed(shell, "stoker config set gpus 0")
    for line in ("python scheduler.py", "python scheduler.py --csv scheduler_files/commands.csv"):
        ran = typed(shell, line)
        assert ran.code == 0, ran
    assert lines_of(shell.work / "seen.txt") == [
        "0 --epochs=4 --id=1", "0 --epochs=3 --id=2", "0 --epochs=4 --id=3", "0 --epochs=3 --id=4",
    ]  # fmt: skip


def test_gpu_task_scheduler_is_imported_and_runs_there(shell: StokerHome) -> None:
    write_project(shell.work)
    ran = typed(shell, "python main.py")
    assert ran.code == 0, ran
    assert sorted(path.name for path in (shell.work / "results").iterdir()) == sorted(FOLDERS)


def test_what_was_installed_is_uninstalled_whole(tmp_path: Path, bare: Installed) -> None:
    other = empty(tmp_path / "venv")
    before = {str(path) for path in other.root.rglob("*")}
    sources = bare.root.parent / "sources"
    other.pip("install", "--no-deps", str(sources))
    assert other.commands() >= COMMANDS
    other.pip("uninstall", "--yes", "stoker-gpu")
    left = {str(path) for path in other.root.rglob("*") if "__pycache__" not in path.parts}
    assert left == before


def test_uninstalled_first_the_older_package_takes_nothing_of_ours_away(
    tmp_path: Path, bare: Installed
) -> None:
    other = empty(tmp_path / "venv")
    theirs = next((peers_bin().parent / "lib").glob("python*/site-packages"))
    sources = bare.root.parent / "sources"
    [ours] = (other.root / "lib").glob("python*/site-packages")
    # As pip leaves it: the older package's files, commands and record.
    for path in theirs.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            to = ours / path.relative_to(theirs)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())
    for name in COMMANDS - {"stoker"}:
        (other.bin / name).write_bytes((peers_bin() / name).read_bytes())
    other.pip("uninstall", "--yes", "simple-gpu-scheduler")
    assert not COMMANDS & other.commands()
    other.pip("install", "--no-deps", str(sources))
    assert other.commands() >= COMMANDS
