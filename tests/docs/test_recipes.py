"""The recipes for checkpoints, interrupted again and again: they end as if they had not been."""

from __future__ import annotations

import re
import shlex
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from docs.pages import commands_of, read
from peers import python_with_torch
from stoker_home import StokerHome, kill_and_wait, processes_with
from waiting import eventually

pytestmark = pytest.mark.timeout(900)  # PyTorch may have to be installed first.

PAGE = "docs/checkpoint-recipes.md"
BLOCKS = read(PAGE)
COMMANDS = [one.text for block in BLOCKS if not block.title for one in commands_of(block)]
AS_WRITTEN = "--slice 2h --signal USR2@2m"
# It is past its slice after a moment, so that it makes room as soon as another job waits.
IN_SLICES = "--slice 60100ms --signal USR2@60s"
EPOCHS = 10
# An attempt for which there is a file stays where it is before it has saved its third epoch, until
# it is told to go on later, or killed. So it is interrupted in the middle on any machine.
HOLD = """
import os, select, sys, time

seen = 0

def hook(event, words):
    if event == "os.rename" and os.environ["STOKER_CHECKPOINT_DIR"] in str(words[1]):
        stay()

def stay(seconds=0):
    global seen
    seen += 1
    while seen == 3 and not getattr(sys.modules["__main__"], "told", False):
        select.select([], [], [], 0.01)

attempt = "{STOKER_JOB_ID}.{STOKER_ATTEMPT}" if "STOKER_JOB_ID" in os.environ else "none"
if os.path.exists(os.path.join(os.environ["HELD"], attempt.format_map(os.environ))):
    sys.addaudithook(hook)
    if "submitit" in str(sys.orig_argv):
        time.sleep = stay  # Its epochs save nothing, but wait.
"""


class Recipes:
    """A Stoker with one GPU, and the files of the page."""

    def __init__(self, home: StokerHome) -> None:
        self.python = python_with_torch()
        home.env["PATH"] = f"{self.python.parent}:{home.env['PATH']}"
        self.home = home
        for block in BLOCKS:
            if block.title:
                (home.work / block.title).write_text(block.text)
        (home.work / "sitecustomize.py").write_text(HOLD)
        home.env["PYTHONPATH"] = f"{home.work}:{home.env['PYTHONPATH']}"
        home.env["HELD"] = str(home.work / "held")
        home.start(gpus="0")

    def hold(self, *attempts: int) -> None:
        """Let these attempts of the first job stay in their third epoch."""
        held = self.home.work / "held"
        held.mkdir()
        for attempt in attempts:
            (held / f"1.{attempt}").touch()

    def add(self, program: str, result: str, slices: str, *words: str) -> int:
        """Queue what the page says of a program, with other slices and another result."""
        (text,) = (one for one in COMMANDS if one.startswith("stoker add") and program in one)
        assert AS_WRITTEN in text and text.endswith(" 3 model.pt")
        text = text.replace(" 3 model.pt", f" {EPOCHS} {self.result(result)}")
        text = text.replace(AS_WRITTEN, slices).replace("\\\n", "")
        return self.home.add(*words, *shlex.split(text)[2:])

    def result(self, name: str) -> Path:
        """The file for a result. PyTorch writes the name of the file into it."""
        path = self.home.work / name / "model.pt"
        path.parent.mkdir(exist_ok=True)
        return path

    def until_said(self, job: int, words: str) -> None:
        """A job has told where it is."""

        def said() -> bool:
            found = self.home.job(job)
            log = self.home.log_of(job)
            assert found["ended_at_ms"] is None, (found["reason"], log)
            return words in log

        eventually(said, f"it says {words!r}", 300)

    def worker(self, job: int, attempt: int, restart: int) -> int:
        """The second worker of an attempt, as torchrun has started it for the nth time."""
        said = {f"STOKER_JOB_ID={job}", f"STOKER_ATTEMPT={attempt}", "RANK=1"}
        said |= {f"TORCHELASTIC_RESTART_COUNT={restart}"}
        found = []
        # Other tests have workers at the same time, whose jobs may have the same numbers.
        for pid in processes_with(f"STOKER_HOME={self.home.home.root}".encode()):
            with suppress(OSError):  # It may have ended by now.
                if said <= set(Path(f"/proc/{pid}/environ").read_text().split("\0")):
                    found.append(pid)
        (pid,) = found
        return pid

    def interrupt(self, job: int, attempt: int) -> None:
        """Once an attempt trains, let another job wait for its GPU until it has made room."""
        self.until_said(job, f"attempt {attempt}")
        other = self.home.submit("true", gpus=1)
        self.home.until_final(other)
        eventually(lambda: self.home.job(job)["attempt"] == attempt + 1, "it goes on")


@pytest.fixture
def recipes(home: StokerHome) -> Recipes:
    return Recipes(home)


def from_epochs(log: str) -> list[int]:
    """Where attempts, and restarts within them, went on."""
    return [int(epoch) for epoch in re.findall(r"from epoch (\d+)", log)]


def went_on(recipes: Recipes, job: int) -> list[int]:
    """From which epoch each attempt that tells of it went on."""
    logs = [Path(one["log"]).read_text() for one in recipes.home.job(job)["attempts"]]
    return [epoch for log in logs for epoch in from_epochs(log)]


@pytest.mark.parametrize("program", ["train.py", "train_accelerate.py", "train_lightning.py"])
def test_a_recipe_in_slices_ends_with_the_weights_of_an_uninterrupted_run(
    recipes: Recipes, program: str
) -> None:
    home = recipes.home
    recipes.hold(1, 2)
    sliced = recipes.add(program, "sliced", IN_SLICES)
    whole = recipes.add(program, "whole", AS_WRITTEN, "--gpus", "0")
    recipes.interrupt(sliced, 1)
    home.kill_daemon()
    home.start()
    recipes.interrupt(sliced, 2)
    ended, alone = home.until_final(sliced, whole)
    assert [(one["state"], one["exit_code"]) for one in ended["attempts"]] == [
        ("requeued", 75), ("requeued", 75), ("succeeded", 0),
    ], home.log_of(sliced)  # fmt: skip
    assert (alone["state"], alone["attempt"]) == ("succeeded", 1)
    first, second, third = went_on(recipes, sliced)
    assert 0 == first < second < third < EPOCHS
    assert recipes.result("sliced").read_bytes() == recipes.result("whole").read_bytes()


def test_torchrun_restarts_dead_workers_itself_and_stoker_goes_on_when_it_gives_up(
    recipes: Recipes,
) -> None:
    home = recipes.home
    recipes.hold(1, 2)
    sliced = recipes.add("train_torchrun.py", "sliced", IN_SLICES)
    whole = recipes.add("train_torchrun.py", "whole", AS_WRITTEN, "--gpus", "0")
    recipes.interrupt(sliced, 1)
    for restart in (0, 1):  # The page allows one.
        recipes.until_said(sliced, f"attempt 2, restart {restart}")
        kill_and_wait(recipes.worker(sliced, 2, restart))
    ended, alone = home.until_final(sliced, whole)
    assert [(one["state"], one["exit_code"]) for one in ended["attempts"]] == [
        ("requeued", 75), ("failed", 1), ("succeeded", 0),
    ], home.log_of(sliced)  # fmt: skip
    assert (ended["resumes"], alone["state"], alone["attempt"]) == (1, "succeeded", 1)
    epochs = went_on(recipes, sliced)
    assert len(epochs) == 4 and epochs == sorted(epochs) and epochs[0] == 0 < epochs[1]
    assert recipes.result("sliced").read_bytes() == recipes.result("whole").read_bytes()


def test_a_callable_of_submitit_goes_on_with_what_its_checkpoint_returns(
    recipes: Recipes,
) -> None:
    home = recipes.home
    path = home.work / "submit.py"
    text = path.read_text()
    assert 'slice="2h", signal="USR2@2m"' in text
    path.write_text(
        text.replace('slice="2h", signal="USR2@2m"', 'slice="60.1s", signal="USR2@60s"')
    )
    recipes.hold(1, 2)
    words = [str(recipes.python), "submit.py", "20", str(recipes.result("sliced"))]
    with subprocess.Popen(words, cwd=home.work, env=home.env, stdout=-1, text=True) as waits:
        eventually(home.jobs, "it is queued", 60)
        recipes.interrupt(1, 1)
        home.kill_daemon()
        home.start()
        recipes.interrupt(1, 2)
        printed, _ = waits.communicate(timeout=300)
    [ended] = home.until_final(1)
    assert [(one["state"], one["exit_code"]) for one in ended["attempts"]] == [
        ("requeued", 144), ("requeued", 144), ("succeeded", 0),
    ]  # fmt: skip
    whole = recipes.result("whole")
    script = f"import submit; print(submit.Training()(20, {str(whole)!r}))"
    env = home.env | {"STOKER_ATTEMPT": "1"}
    alone = subprocess.check_output(
        [recipes.python, "-c", script], cwd=home.work, env=env, text=True
    )
    assert printed == f"job 1 has computed {alone.splitlines()[-1]}\n"
    assert recipes.result("sliced").read_bytes() == whole.read_bytes()
