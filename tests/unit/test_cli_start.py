"""The hot path: what a fresh `stoker add` or `stoker ls` loads, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unit.cli_run import argv, environment, process
from unit.scripted_daemon import Script, ScriptedDaemon, job
from waiting import PATIENCE_S

HEAVY = {
    "argparse", "click", "dataclasses", "typing", "re", "enum", "socket", "asyncio", "msgspec",
    "rich", "platformdirs", "subprocess", "shlex", "datetime", "pathlib", "json", "signal",
    "collections", "functools", "importlib", "inspect", "threading", "logging", "select",
}  # fmt: skip

_TELL = """\
import sys
before = set(sys.modules)
from stoker.cli.main import main
code = main(sys.argv[1:])
print(*sorted(set(sys.modules) - before), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "words",
    [
        ["add", "--gpus", "2", "--mem", "8G", "--time-limit", "2h", "--name", "big", "--at", "+2h",
         "--on", "0-3", "--after", "7", "--signal", "USR1@2m", "--env", "A=b", "--", "true", "x"],
        ["add", "--", "true && true"],
        ["ls"],
        ["ls", "--state", "running", "--name", "x", "--json"],
        [],
    ],
    ids=lambda words: " ".join(words)[:12] or "bare",
)  # fmt: skip
def test_the_hot_path_imports_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    script: Script = {
        "submit": {"ids": [7]},
        "list": {"jobs": [job(1), job(2, "failed", exit_code=1)], "total": 2},
        "status": {"gpus": [], "jobs": [job(1)], "counts": {"running": 1}, "paused": False},
    }
    with ScriptedDaemon(tmp_path, script):
        ran = subprocess.run(
            # -S: what a site directory imports for its own ends is not ours.
            [sys.executable, "-S", "-c", _TELL, *words],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert ran.returncode == 0, ran.stderr
    loaded = set(ran.stderr.split())
    assert "stoker.cli.main" in loaded
    assert loaded & HEAVY == set()


_ALWAYS = {
    "api", "api.client", "api.jsonline", "api.paths", "cli", "cli.main", "cli.options",
    "cli.verbs", "errors",
}  # fmt: skip
_ADD = _ALWAYS | {"cli.jobspec", "cli.verbs.add", "submission", "submission.surroundings"}
# What is said of a job takes the table of options, and the rules if it could contradict itself.
_ADD_WITH_OPTIONS = _ADD | {"api.job_option", "api.job_options", "quantities"}
_ADD_WITH_RULES = _ADD_WITH_OPTIONS | {"submission.rules"}
_LS = _ALWAYS | {
    "cli.selection", "cli.verbs.ls", "text", "text.jobs", "text.terminal",
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["add", "--", "true", "x"], _ADD),
        (["add", "true", "x"], _ADD),
        (["add", "--gpus", "2", "--name", "big", "--", "true", "x"], _ADD_WITH_OPTIONS),
        (["add", "--gpus", "1", "--mem", "8G", "--", "true", "x"], _ADD_WITH_RULES),
        (["ls"], _LS),
    ],
    ids=["add", "bare add", "add with options", "add with rules", "ls"],
)
def test_a_verb_loads_what_its_line_needs_and_no_more(
    words: list[str], expected: set[str], tmp_path: Path
) -> None:
    script: Script = {"submit": {"ids": [7]}, "list": {"jobs": [job(1)], "total": 1}}
    with ScriptedDaemon(tmp_path, script):
        ran = subprocess.run(
            [sys.executable, "-c", _TELL, *words],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=tmp_path,
        )
    loaded = {name for name in ran.stderr.split() if name.startswith("stoker")}
    assert loaded == {"stoker", *(f"stoker.{name}" for name in expected)}


def test_garbage_is_looked_for_again_once_the_verb_is_loaded(tmp_path: Path) -> None:
    script = "import gc\ngc.disable()\n" + _TELL.replace("print(*", "print(gc.isenabled(), *")
    with ScriptedDaemon(tmp_path, {"list": {"jobs": [job(1)], "total": 1}}):
        ran = subprocess.run(
            [sys.executable, "-c", script, "ls"],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert ran.stderr.startswith("True ")


def test_the_process_ends_with_the_exit_code_and_its_output_whole(tmp_path: Path) -> None:
    jobs = [job(number, name=f"job number {number}") for number in range(5000)]
    with ScriptedDaemon(tmp_path, {"list": {"jobs": jobs, "total": 5000}}):
        ran = process(tmp_path, "ls")
    assert (ran.code, ran.err) == (0, "")
    assert len(ran.out.splitlines()) == 5001


def test_a_reader_that_goes_away_is_no_reason_to_complain(tmp_path: Path) -> None:
    jobs = [job(number, name=f"job number {number}") for number in range(5000)]
    with ScriptedDaemon(tmp_path, {"list": {"jobs": jobs, "total": 5000}}):
        reader, writer = os.pipe()
        os.close(reader)
        ran = subprocess.run(
            argv("ls"), env=environment(tmp_path), stdout=writer, stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
        )  # fmt: skip
        os.close(writer)
    assert ran.stderr == b""
    assert ran.returncode == 141


def test_an_output_that_can_not_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    with (
        ScriptedDaemon(tmp_path, {"list": {"jobs": [job(1)], "total": 1}}),
        open("/dev/full", "wb") as full,
    ):
        ran = subprocess.run(
            argv("ls"), env=environment(tmp_path), stdout=full, stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
        )  # fmt: skip
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"stoker: ")
    assert ran.stderr.count(b"\n") == 1


def test_a_closed_stdout_does_no_harm(tmp_path: Path) -> None:
    with ScriptedDaemon(tmp_path, {"submit": {"ids": [7]}}) as daemon:
        command = " ".join(argv("add", "--", "true", "x")) + " >&- 2>&-"
        done = subprocess.run(
            ["sh", "-c", command], env=environment(tmp_path), timeout=PATIENCE_S, cwd=tmp_path
        )
    assert done.returncode == 0
    assert len(daemon.sent("submit")) == 1


def test_letters_that_an_output_can_not_show_are_escaped(tmp_path: Path) -> None:
    with ScriptedDaemon(tmp_path, {"list": {"jobs": [job(1, name="größer 火")], "total": 1}}):
        ran = process(tmp_path, "ls", PYTHONIOENCODING="ascii")
    assert ran.code == 0
    assert "gr\\xf6\\xdfer \\u706b" in ran.out


def test_it_works_from_python_dash_m_too(tmp_path: Path) -> None:
    assert process(tmp_path, "--version").out.startswith("stoker ")
