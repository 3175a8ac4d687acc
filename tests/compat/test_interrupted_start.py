"""Ctrl-C while a command is still being loaded: it ends, and shows no traceback."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from stoker.compat import (
    priority_scheduler,
    scheduler,
    simple_gpu_scheduler,
    simple_hypersearch,
)
from stoker_home import SRC, StokerHome
from waiting import PATIENCE_S

BIN = Path(__file__).parents[2] / "bin"
COMMANDS = {
    "stoker": ([str(BIN / "stoker"), "ls"], b"stoker/errors/__init__.py"),
    "module": (["-m", "stoker", "ls"], b"stoker/errors/__init__.py"),
    "simple_gpu_scheduler": (
        [str(BIN / "simple_gpu_scheduler"), "--gpus", "0"], b"stoker/api/client.py",
    ),
    "simple_hypersearch": (
        [str(BIN / "simple_hypersearch"), "x {a}", "-p", "a", "1"], b"argparse",
    ),
    "scheduler": (["-m", "stoker.compat.scheduler", "-s"], b"argparse"),
    "feed module": (["-m", "stoker.compat.simple_gpu_scheduler", "--gpus", "0"], b"argparse"),
    "search module": (["-m", "stoker.compat.simple_hypersearch", "x"], b"argparse"),
    "scheduler.py": (["-c", "from stoker.compat.scheduler import main; main()"], b"argparse"),
    "ps.py": (["-c", "from stoker.compat.priority_scheduler import main; main()"], b"argparse"),
    "startserver.py": (
        ["-c", "from stoker.compat.gpupeasy import start_server; start_server()"],
        b"stoker/api/client.py",
    ),
}  # fmt: skip
# The scripts that are installed, and those that the documentation has to copy.
SCRIPTS = {path.name: path.read_text() for path in BIN.iterdir()} | {
    f"{page.stem}: {title}": text
    for page in (BIN.parent / "docs").glob("coming-from-*.md")
    for title, text in re.findall(r'```python title="(\w+\.py)"\n(.*?)```', page.read_text(), re.S)
    if "stoker.compat" in text
}
# What is run with `python -m`, and what it imports first.
MODULES = {
    "__main__": "stoker/cli/__init__.py",
    "compat.scheduler": "stoker/compat/loading.py",
    "compat.simple_gpu_scheduler": "stoker/compat/loading.py",
    "compat.simple_hypersearch": "stoker/compat/loading.py",
}
OLDER_TOOLS = (scheduler, priority_scheduler, simple_gpu_scheduler, simple_hypersearch)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_interrupted_while_it_loads_ends_quietly(
    home: StokerHome, name: str
) -> None:
    words, sign = COMMANDS[name]
    # With -v the interpreter tells of each module that it has found.
    process = subprocess.Popen(
        [sys.executable, "-v", *words],
        env=home.env,
        cwd=home.work,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    told = b""
    while sign not in told:
        piece = os.read(process.stderr.fileno(), 65536)
        assert piece, "it has ended"
        told += piece
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=PATIENCE_S)
    assert b"Traceback" not in told + rest and b"KeyboardInterrupt" not in told + rest
    assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT, 0)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_is_interrupted_before_any_of_our_code_runs_ends_quietly(
    home: StokerHome, name: str
) -> None:
    # In the place of Stoker is a package in whose first line the user presses Ctrl-C.
    (home.work / "path" / "stoker").mkdir(parents=True)
    package = home.work / "path" / "stoker" / "__init__.py"
    package.write_text("import _signal\nprint('loads')\n_signal.raise_signal(_signal.SIGINT)\n")
    script = home.work / "script"
    script.write_text(SCRIPTS[name])
    ran = subprocess.run(
        [sys.executable, "-u", script],
        env={**home.env, "PYTHONPATH": str(home.work / "path")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("loads\n", "")
    assert ran.returncode in (-signal.SIGINT, 128 + signal.SIGINT)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_is_interrupted_at_its_first_import_ends_quietly(
    home: StokerHome, name: str
) -> None:
    # What it imports first of ours is a module in whose first line the user presses Ctrl-C.
    first = home.work / "path" / MODULES[name]
    first.parent.mkdir(parents=True)
    for folder in (first.parent, first.parent.parent):
        (folder / "__init__.py").touch()
    first.write_text("import _signal\nprint('loads')\n_signal.raise_signal(_signal.SIGINT)\n")
    source = f"stoker/{name.replace('.', '/')}.py"
    shutil.copy(Path(SRC) / source, home.work / "path" / source)
    ran = subprocess.run(
        [sys.executable, "-u", "-m", f"stoker.{name}"],
        env={**home.env, "PYTHONPATH": str(home.work / "path")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("loads\n", "")
    assert ran.returncode in (-signal.SIGINT, 128 + signal.SIGINT)


def test_the_documentation_has_the_scripts_of_the_older_tools() -> None:
    assert len(SCRIPTS) == 3 + 4


@pytest.mark.parametrize("tool", OLDER_TOOLS)
def test_an_older_tool_that_is_interrupted_before_it_knows_its_options_ends_quietly(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(argparse.ArgumentParser, "__init__", interrupted)
    assert tool.main([]) == 128 + signal.SIGINT
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_is_the_programs_own_again_once_our_module_is_loaded(home: StokerHome) -> None:
    told = subprocess.check_output(
        [
            sys.executable, "-c",
            "import signal, stoker.compat.scheduler\n"
            "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
            "signal.signal(signal.SIGINT, print)\n"
            "import stoker.compat.priority_scheduler\n"
            "print(signal.getsignal(signal.SIGINT) is print)",
        ],
        env=home.env,
        text=True,
    )  # fmt: skip
    assert told.split() == ["True", "True"]


def test_a_gpu_that_does_not_exist_is_named_once(stoker: StokerHome) -> None:
    refused = stoker.cli("add", "--on", "7", "--prefer", "7", "--", "true")
    assert refused.code == 2 and "there is no GPU 7;" in refused.err
