"""The command that `stoker results best` prints to run a job again: it has all of its options."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any

import pytest

from stoker.api.job_options import JOB_OPTIONS
from stoker.cli.jobspec import submission
from stoker.cli.options import parse
from stoker.cli.verbs.add import VERB
from stoker.submission.again import add_again
from stoker.submission.surroundings import submit
from stoker_home import StokerHome

OWN = ("id", "submitted_at_ms", "queued_at_ms", "log", "err_log", "checkpoint_dir")  # of any job
# How each option of the table is said, with what else it needs.
SAID = {
    "gpus": "--gpus 0.5",
    "mem": "--mem auto",
    "mem-margin": "--mem auto --mem-margin 2G",
    "kind": "--kind mine",
    "exclusive": "--exclusive",
    "on": "--on 1,2",
    "prefer": "--prefer 3,2",
    "cpus": "--gpus 0 --cpus 0",
    "max-per-gpu": "--max-per-gpu 3",
    "priority": "--priority -5",
    "name": "--name 'a b'",
    "group": "--group mine",
    "time-limit": "--time-limit 90m",
    "grace": "--grace 0s",
    "signal": "--time-limit 1h --signal USR1@2m",
    "retries": "--retries 2",
    "requeue-on": "--requeue-on 75,76",
    "slice": "--slice 2h",
    "keep-place": "--slice 2h --keep-place",
    "stuck-after": "--slice 2h --stuck-after off",
    "requeue": "--requeue",
    "preemptible": "--preemptible",
    "yields": "--preemptible --yields 2",
    "urgent": "--urgent",
    "max-log": "--max-log off",
    "freeze": "--freeze",
    "env": "--env A=1 --env B='-x y'",
    "env-all": "--env-all",
    "nice": "--nice 7",
    "gpu-arg": "--gpu-arg",
    "visible": "--visible uuid",
    "keep-children": "--keep-children",
    "metric": r"--metric 'fin=final (\S+)' --metric 'acc=-a (.*)'",
    "metrics-from": "--metrics-from 'runs/{id}'",
    "hook": "--hook 'cat > /dev/null'",
    "cwd": "--cwd /",
    "on-cluster": "--on-cluster",
    "executor": "--executor slurm",
    "slurm": "--slurm '--qos x --mail-type END'",
}
# What this machine refuses, as it is on record, and the fields of a request for it.
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mps": ({"mps": True}, {"mps": True}),
    "thread-percentage": ({"thread_percentage": 0}, {"thread_percentage": 0}),
    "notify": ({"notify": True}, {"notify": True}),
    "mem": ({"need": {"mem_mib": 2048}}, {"mem_mib": 2048}),
}
# What it waited for is over, and the output of the best run must not be written over.
OF_THAT_RUN = {
    "at": "--at +2h",
    "after": "--after {first}",
    "after-any": "--after-any {first}",
    "after-pid": "--after-pid {pid}",
    "hold": "--hold",
    "out": "--out out.txt",
    "err": "--err err.txt",
    "append": "--out out.txt --append",
    "overwrite": "--out out.txt --overwrite",
}


@pytest.fixture
def there(reused: StokerHome, monkeypatch: pytest.MonkeyPatch) -> StokerHome:
    """A Stoker in whose directory the commands are said."""
    monkeypatch.chdir(reused.work)
    return reused


def queued(stoker: StokerHome, *words: str) -> dict[str, Any]:
    """The job that `stoker add` queues for these words, with its variables."""
    args = parse(VERB, list(words))
    assert args is not None
    request = submission(args, "add")
    with stoker.client() as client:
        job_id = submit(client, request)
        [job] = client.call("show", select={"ids": [str(job_id)]}, env=True)["jobs"]
    return {key: value for key, value in job.items() if key not in OWN}


def repeated(stoker: StokerHome, job: dict[str, Any]) -> dict[str, Any]:
    """The job that its command queues."""
    return queued(stoker, "--hold", *shlex.split(add_again(job))[2:])


def test_every_option_of_the_table_is_among_those_tried_here() -> None:
    assert {option.name for option in JOB_OPTIONS} == {*SAID, *REFUSED, *OF_THAT_RUN}


@pytest.mark.parametrize("name", SAID)
def test_a_job_that_is_run_again_has_the_option(there: StokerHome, name: str) -> None:
    plain = queued(there, "--hold", "--", "true", "x")
    job = queued(there, "--hold", *shlex.split(SAID[name]), "--", "true", "x")
    assert job != plain
    again = repeated(there, job)
    if name == "freeze":  # It is queued in the copy, where the code is as it was.
        assert again["options"].pop("freeze") and job["options"].pop("freeze")
    assert again == job


@pytest.mark.parametrize("name", REFUSED)
def test_the_command_says_what_is_on_record_where_it_can_not_be_queued_here(
    there: StokerHome, name: str
) -> None:
    plain = queued(there, "--hold", "--", "true", "x")
    on_record, fields = REFUSED[name]
    job = {**plain, **on_record, "need": {**plain["need"], **on_record.get("need", {})}}
    args = parse(VERB, shlex.split(add_again(job))[2:])
    assert args is not None
    said = submission(args, "add")["jobs"][0]
    assert said == {"cwd": str(there.work), **fields, "argv": ["true", "x"]}


@pytest.mark.parametrize("name", OF_THAT_RUN)
def test_what_only_that_run_waited_for_or_wrote_is_not_said_again(
    there: StokerHome, name: str
) -> None:
    first = there.submit("true", gpus=0, hold=True)
    said = OF_THAT_RUN[name].format(first=first, pid=os.getpid())
    job = queued(there, *shlex.split(said), "--", "true", "x")
    assert add_again(job) == f"stoker add --cwd {there.work} -- true x"


def test_only_what_is_not_the_default_is_said(there: StokerHome) -> None:
    job = queued(there, "--hold", "--", "true | cat")
    assert add_again(job) == f"stoker add --cwd {there.work} -- 'true | cat'"
    assert repeated(there, job) == job
    alone = {**job, "shell": None, "argv": ["a b"]}
    assert repeated(there, alone)["shell"] == "'a b'"


def test_the_best_point_is_run_again_with_its_variables_expressions_and_files(
    stoker: StokerHome,
) -> None:
    (stoker.work / "out").mkdir()
    script = r'echo "final {x}.$A"; printf "step,loss\n1,{x}\n" > out/{x}.csv'
    stoker.stoker(
        "sweep", "x=2,1", "--name", "s", "--gpus", "0", "--env", "A=5", "--priority", "3",
        "--metric", r"fin=final (\S+)", "--metrics-from", "out/{x}.csv", "--", script,
    )  # fmt: skip
    stoker.stoker("wait", "--group", "s")
    asked = ("results", "best", "s", "--minimize", "fin")
    [best] = json.loads(stoker.stoker(*asked, "--json"))["best"]
    assert best["run_again"] in stoker.stoker(*asked)
    words = shlex.split(best["run_again"])
    assert words[words.index("--metrics-from") + 1] in ("out/1.csv", f"{stoker.work}/out/1.csv")
    again = int(stoker.stoker(*words[1:]))
    stoker.stoker("wait", str(again))
    [row] = json.loads(stoker.stoker("results", str(again), "--json"))["results"]
    assert {name: of["last"] for name, of in row["metrics"].items()} == {"fin": 1.5, "loss": 1}
    assert stoker.job(again)["priority"] == 3


def test_only_who_asks_for_them_is_told_the_values_of_variables(there: StokerHome) -> None:
    job_id = there.submit("true", env={"TOKEN": "secret"}, hold=True)
    assert "secret" not in json.dumps(there.job(job_id))
    assert there.job(job_id)["env_set"] == ["TOKEN"]
