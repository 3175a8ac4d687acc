"""Shell completion: what a shell offers is what the parser takes."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from stoker.cli.verbs import VERBS, all_verbs
from stoker.cli.verbs.completion import bash, fish, zsh
from unit.cli_run import argv, environment, stoker
from unit.scripted_daemon import Script, ScriptedDaemon, job
from waiting import PATIENCE_S

_ASK = """\
source /dev/stdin
COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:' COMP_LINE=$1 COMP_POINT=${#1}
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_stoker
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(*words: str, cwd: Path | None = None, line: str = "") -> set[str]:
    """What bash offers for the last of these words, into which it has cut the line."""
    done = subprocess.run(
        ["bash", "--norc", "-c", _ASK, "bash", line or " ".join(words), *words],
        input=bash(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=cwd,
    )
    assert done.stderr == ""
    return {word for word in done.stdout.split("\n") if word}


def test_bash_offers_every_verb() -> None:
    assert offered("stoker", "") == {*VERBS, "--help", "--version", "--json"}
    assert offered("stoker", "ca") == {"cancel"}


@pytest.mark.parametrize(
    "verb", [verb for verb in all_verbs() if not verb.verbs], ids=lambda verb: verb.name
)
def test_bash_offers_every_option_of_every_verb(verb: object) -> None:
    name, options = verb.name, verb.options  # type: ignore[attr-defined]
    wanted = {"--help", *(f"--{option.name}" for option in options)}
    assert offered("stoker", *name.split(), "--") == wanted


def test_bash_offers_the_members_of_a_family_and_the_values_of_an_option(tmp_path: Path) -> None:
    assert {"list", "add", "remove", "drain", "resume"} <= offered("stoker", "gpus", "")
    assert offered("stoker", "gpus", "dr") == {"drain"}
    assert offered("stoker", "completion", "") >= {"bash", "zsh", "fish"}
    assert offered("stoker", "ls", "--state", "ru") == {"running"}
    assert "cancel" in offered("stoker", "help", "c")
    (tmp_path / "data").mkdir()
    (tmp_path / "data.txt").touch()
    assert offered("stoker", "add", "--cwd", "da", cwd=tmp_path) == {"data"}
    assert offered("stoker", "add", "--out", "da", cwd=tmp_path) == {"data", "data.txt"}
    assert offered("stoker", "add", "--name", "") == set()


def test_bash_completes_the_command_after_the_two_dashes(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert "bash" in offered("stoker", "add", "--gpus", "1", "--", "bas")
    assert offered("stoker", "add", "--", "python", "tr", cwd=tmp_path) == {"train.py"}


def test_bash_completes_a_command_without_the_two_dashes(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert "bash" in offered("stoker", "add", "--gpus", "1", "bas")
    assert offered("stoker", "run", "--name", "x", "python", "tr", cwd=tmp_path) == {"train.py"}
    assert "--gpus" in offered("stoker", "add", "--name", "x", "--g")
    assert offered("stoker", "batch", "tr", cwd=tmp_path) == {"train.py"}


SCRIPT: Script = {
    "list": {"jobs": [job(7, name="big"), job(70, "waiting", command="a: b"), job(12)], "total": 3},
    "groups": {"groups": [{"group": "night", "counts": {"running": 1}}]},
    "sweeps": {"sweeps": [{"sweep": "lr-search", "counts": {"waiting": 2}}]},
    "status": {
        "counts": {"running": 1, "waiting": 1, "failed": 2},
        "gpus": [{"id": "0", "name": "A100"}],
    },
    "config_get": {"settings": [{"name": "gpus", "help": "the GPUs to use"}]},
    "gpus": {"gpus": [{"id": "0", "name": "A100"}, {"id": "1", "name": "A100"}]},
}


def stoker_on_path(home: Path) -> Path:
    """A `stoker` for the scripts to call."""
    program = home / "bin" / "stoker"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(argv())} "$@"\n')
    program.chmod(0o700)
    return program.parent


def test_what_the_daemon_knows_is_offered_ids_with_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{stoker_on_path(tmp_path)}:{os.environ['PATH']}")
    with ScriptedDaemon(tmp_path, SCRIPT):
        assert offered("stoker", "logs", "7") == {"7  (running: big)", "70  (waiting: a: b)"}
        assert offered("stoker", "show", "1") == {"12"}, "one is completed without its name"
        assert offered("stoker", "add", "--after", "l") == {"last"}
        assert offered("stoker", "ls", "--group", "") == {"night"}
        assert offered("stoker", "sweep", "show", "") == {"lr-search"}
        assert offered("stoker", "config", "set", "g") == {"gpus"}
        assert offered("stoker", "add", "--on", "") == {"0  (A100)", "1  (A100)"}
        assert offered("stoker", "gpus", "drain", "1") == {"1"}
        assert offered("stoker", "ls", "fa") == set()
        assert offered("stoker", "ls", "st") == {
            "state:waiting  (1 job)", "state:running  (1 job)", "state:failed  (2 jobs)",
        }  # fmt: skip
        assert offered("stoker", "ls", "gr") == {"group:night"}
        colon = offered("stoker", "ls", "state", ":", line="stoker ls state:")
        assert colon == {"waiting  (1 job)", "running  (1 job)", "failed  (2 jobs)"}
        fa = offered("stoker", "ls", "x", "state", ":", "fa", line="stoker ls x state:fa")
        assert fa == {"failed"}, "bash keeps what is before the colon"
    assert offered("stoker", "add", "--after", "") == set(), "without a daemon, nothing"
    assert not (tmp_path / "stoker.db").exists(), "and none is started"


def test_bash_inserts_nothing_that_the_shell_would_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{stoker_on_path(tmp_path)}:{os.environ['PATH']}")
    hostile = "`touch x` $(id)"
    groups = [{"group": name, "counts": {}} for name in (hostile, "my group")]
    with ScriptedDaemon(tmp_path, {**SCRIPT, "groups": {"groups": groups}}):
        words = offered("stoker", "ls", "--group", "")
        assert sorted(shlex.split(word)[0] for word in words) == [hostile, "my group"]
        assert offered("stoker", "ls", "--group", "my") == {"my\\ group"}
        assert offered("stoker", "ls", "--group", "my\\ g") == {"my\\ group"}
        assert offered("stoker", "ls", "--group", '"`') == {"\\`touch x\\` \\$(id)"}
        assert offered("stoker", "ls", "--group", "'my") == {"my group"}


def test_values_of_settings_are_not_completed_by_names_and_jobs_are_by_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{stoker_on_path(tmp_path)}:{os.environ['PATH']}")
    with ScriptedDaemon(tmp_path, SCRIPT):
        assert "gpus" not in offered("stoker", "config", "set", "gpus", "")
        assert offered("stoker", "logs", "--name", "b") == {"big"}
        assert offered("stoker", "add", "--name", "b") == set()


def test_fish_offers_what_the_daemon_knows(tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script = tmp_path / "stoker.fish"
    script.write_text(fish())
    path = f"{stoker_on_path(tmp_path)}:{os.environ['PATH']}"
    with ScriptedDaemon(tmp_path, SCRIPT):
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source {script}; complete -C 'stoker logs 7'"],
            env=environment(tmp_path, PATH=path), capture_output=True, text=True,
            timeout=PATIENCE_S,
        )  # fmt: skip
    assert "7\trunning: big" in done.stdout.splitlines(), done.stderr


def test_every_shell_knows_every_verb_and_option() -> None:
    for script in (bash(), zsh(), fish()):
        for verb in all_verbs():
            for word in verb.name.split():
                assert word in script
            for option in verb.options:
                assert option.name in script


def test_the_scripts_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for shell, script in (("bash", bash()), ("zsh", zsh()), ("fish", fish())):
        ran = stoker(capsys, "completion", shell)
        assert (ran.code, ran.out, ran.err) == (0, script, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_sound_to_its_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = {"bash": bash, "zsh": zsh, "fish": fish}[shell]()
    done = subprocess.run(
        [shell, "-n"], input=script, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, "")
