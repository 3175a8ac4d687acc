"""Wrong uses that new users make: each is answered with what to write instead."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from stoker.cli.verbs import all_verbs
from stoker.text.jobs import STATES
from stoker.text.suggest import _SYNONYMS
from unit.cli_run import stoker

WRONG_USES = {
    # the words of other tools
    "remove 7": "did you mean `stoker rm`?",
    "delete 7": "did you mean `stoker rm`?",
    "stop 7": "did you mean `stoker cancel`?",
    "kill 7": "did you mean `stoker cancel`?",
    "scancel 7": "did you mean `stoker cancel`?",
    "submit train.sh": "did you mean `stoker add`?",
    "sbatch train.sh": "did you mean `stoker add`?",
    "srun python": "did you mean `stoker run`?",
    "salloc": "did you mean `stoker shell`?",
    "track": "did you mean `stoker adopt`?",
    "bash": "did you mean `stoker shell`?",
    "shell --gpu-arg": "see `stoker shell --help`",
    "shell python x": "'python' is one argument too many",
    "queue": "did you mean `stoker ls`?",
    "jobs": "did you mean `stoker ls`?",
    "squeue": "did you mean `stoker ls`?",
    "list": "did you mean `stoker ls`?",
    "history": "did you mean `stoker ls --all`?",
    "tail 7": "did you mean `stoker logs -f`?",
    "follow 7": "did you mean `stoker logs -f`?",
    "log 7": "did you mean `stoker logs`?",
    "info 7": "did you mean `stoker show`?",
    "clean": "did you mean `stoker rm`?",
    "restart 7": "did you mean `stoker retry`?",
    "nvidia-smi": "did you mean `stoker gpus`?",
    "version": "did you mean `stoker --version`?",
    "help kill": "did you mean `stoker help cancel`?",
    "pending": "did you mean `stoker ls --state waiting`?",
    "done": "did you mean `stoker ls --state succeeded`?",
    "running": "did you mean `stoker ls --state running`?",
    "gpus ls": "did you mean list?",
    "gpus rm 0": "did you mean remove?",
    # states
    "ls --state pending": "did you mean waiting?",
    "ls --state done": "did you mean succeeded?",
    "ls --state FINISHED": "did you mean succeeded?",
    "ls --state error": "did you mean failed?",
    "cancel --state queued": "did you mean waiting?",
    "cancel running": "`stoker ls --state running` lists the jobs in that state",
    "cancel big": "write e.g. 7, 3-9 or last, or --name for jobs with a name",
    "edit 'deep*'": "or last (`stoker ls --name 'deep*'` shows the ids of jobs with that name)",
    "edit running": "`stoker ls --state running` lists the jobs in that state",
    "ls --state sucess": "did you mean succeeded?",
    "cancel all": "did you mean --all?",
    # commands without a verb
    "sh train.sh --lr 1": "did you mean `stoker shell`?",
    "env python train.py": "did you mean `stoker add env python train.py`?",
    "./train.sh": "did you mean `stoker add ./train.sh`?",
    # options
    "edit 18 --hold": "did you mean `stoker hold`?",
    "add --gpu 1 true x": "did you mean --gpus?",
    "add --gpsu 1 true x": "did you mean --gpus?",
    "add --num_gpus 2 true x": "did you mean --gpus?",
    "add --gpu_ids 0 true x": "did you mean --on?",
    "add --memory 8G true x": "did you mean --mem?",
    "add --mem-per-gpu 8G true x": "did you mean --mem?",
    "add --partition long true x": "did you mean --slurm?",
    "ls --partition long": "did you mean --group?",
    "add --time 2h true x": "did you mean --time-limit?",
    "add --dependency 7 true x": "did you mean --after?",
    "add --job-name a true x": "did you mean --name?",
    "add --output x true x": "did you mean --out?",
    "logs --tail 7": "did you mean --lines?",
    "add --gpus 0,1 true x": "to name them write --on 0,1; --gpus is how many",
    "add --gpus 0-3 true x": "to name them write --on 0-3; --gpus is how many",
    "add --mem 10 true x": "10G or 10M?",
    # where the command begins
    "add": "no command was given; e.g. stoker add ",
    "add big -- true x": "put -- in front of the whole command, and options before it",
    "add 'python train.py' --lr 0.1": "quote the whole command, or none of it",
    "add LR=0.1 true x": "to set a variable write --env LR=0.1 in front of the command",
    "sweep seed=1..1000 -- echo {seed}": "1 to 1000 write range(1,1001)",
    "sweep lr=1,2 true x": "the command comes after --",
}


@pytest.mark.parametrize(("line", "answer"), WRONG_USES.items(), ids=WRONG_USES)
def test_a_wrong_use_is_answered_with_what_to_write(
    line: str,
    answer: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    ran = stoker(capsys, *shlex.split(line))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert answer in ran.err
    assert list(tmp_path.iterdir()) == [], "no daemon was asked"


def test_what_a_synonym_stands_for_exists_and_the_word_itself_does_not() -> None:
    verbs = all_verbs()
    words = {word for verb in verbs for word in verb.name.split()}
    flags = {f"--{option.name}" for verb in verbs for option in verb.options}
    known = {*words, *flags, *STATES, "--version", "shell"}
    for typed, guesses in _SYNONYMS.items():
        for guess in guesses.split("|"):
            assert guess.split(" ")[0] in known, typed
    tops = {verb.name for verb in verbs}
    assert not set(_SYNONYMS) & tops - {"ls", "rm"}, "these are members of `gpus` by another name"
