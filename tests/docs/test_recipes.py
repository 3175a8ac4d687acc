"""The recipes for checkpoints, interrupted again and again: they end as if they had not been."""

from __future__ import annotations

import re
import shlex
import subprocess
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
EPOCHS = 200  # long enough to be interrupted, each takes milliseconds


class Recipes:
    """A Stoker with one GPU, and the files of the page."""

    def __init__(self, home: StokerHome) -> None:
        self.python = python_with_torch()
        home.env["PATH"] = f"{self.python.parent}:{home.env['PATH']}"
        self.home = home
        for block in BLOCKS:
            if block.title:
                (home.work / block.title).write_text(block.text)
        home.start(gpus="0")

    def add(self, program: str, result: str, slices: str, *words: str) -> int:
        """Queue what the page says of a program, with other slices and another result."""
        (text,) = (one for one in COMMANDS if one.startswith("stoker add") and program in one)
        assert AS_WRITTEN in text and text.endswith(" 3 model.pt")
        text = text.replace(" 3 model.pt", f" {epochs_of(program)} {self.result(result)}")
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

    def interrupt(self, job: int, attempt: int) -> None:
        """Once an attempt trains, let another job wait for its GPU until it has made room."""
        self.until_said(job, f"attempt {attempt}")
        other = self.home.submit("true", gpus=1)
        self.home.until_final(other)
        eventually(lambda: self.home.job(job)["attempt"] == attempt + 1, "it goes on")


def epochs_of(program: str) -> int:
    """How many a training has; the checkpoints of accelerate take longer than those of others."""
    return EPOCHS // 4 if "accelerate" in program else EPOCHS


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
    assert 0 == first < second < third < epochs_of(program)
    assert recipes.result("sliced").read_bytes() == recipes.result("whole").read_bytes()


def test_torchrun_restarts_dead_workers_itself_and_stoker_goes_on_when_it_gives_up(
    recipes: Recipes,
) -> None:
    home = recipes.home
    sliced = recipes.add("train_torchrun.py", "sliced", IN_SLICES)
    whole = recipes.add("train_torchrun.py", "whole", AS_WRITTEN, "--gpus", "0")
    recipes.interrupt(sliced, 1)
    for restart in (0, 1):  # The page allows one.
        recipes.until_said(sliced, f"attempt 2, restart {restart}")
        kill_and_wait(worker(sliced, 2, restart))
    ended, alone = home.until_final(sliced, whole)
    assert [(one["state"], one["exit_code"]) for one in ended["attempts"]] == [
        ("requeued", 75), ("failed", 1), ("succeeded", 0),
    ], home.log_of(sliced)  # fmt: skip
    assert (ended["resumes"], alone["state"], alone["attempt"]) == (1, "succeeded", 1)
    epochs = went_on(recipes, sliced)
    assert len(epochs) == 4 and epochs == sorted(epochs) and epochs[0] == 0 < epochs[1]
    assert recipes.result("sliced").read_bytes() == recipes.result("whole").read_bytes()


def worker(job: int, attempt: int, restart: int) -> int:
    """The second worker of an attempt, as torchrun has started it for the nth time."""
    said = {f"STOKER_JOB_ID={job}", f"STOKER_ATTEMPT={attempt}", "RANK=1"}
    said |= {f"TORCHELASTIC_RESTART_COUNT={restart}"}
    (pid,) = (
        pid
        for pid in processes_with(b"RANK=1")
        if said <= set(Path(f"/proc/{pid}/environ").read_text().split("\0"))
    )
    return pid


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
    words = [str(recipes.python), "submit.py", "100", str(recipes.result("sliced"))]
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
    script = f"import submit; print(submit.Training()(100, {str(whole)!r}))"
    env = home.env | {"STOKER_ATTEMPT": "1"}
    alone = subprocess.check_output(
        [recipes.python, "-c", script], cwd=home.work, env=env, text=True
    )
    assert printed == f"job 1 has computed {alone.splitlines()[-1]}\n"
    assert recipes.result("sliced").read_bytes() == whole.read_bytes()
