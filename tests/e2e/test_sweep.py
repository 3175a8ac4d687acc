"""`stoker sweep` on a real daemon: points are queued, run once, known again, and shown."""

from __future__ import annotations

import csv
import io
import json
import os
import resource
import shlex
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from stoker.cli.verbs.sweep import VERB
from stoker.sweep.identity import PREFIX
from stoker_home import StokerHome, lines_of
from unit.cli_run import Terminal
from waiting import PATIENCE_S, eventually

# A stand-in for a training script: it records what it was given and the GPU that it saw.
TRAIN = """\
line="$CUDA_VISIBLE_DEVICES|"
for word; do line="$line$word|"; done
printf '%s\\n' "$line" >> "$RECORD"
test ! -e broken
"""
# One that goes on until it is told to end.
PATIENT = "while [ ! -e go ]; do sleep 0.02; done"


class Sweeps:
    """A Stoker with the stand-in in its working directory."""

    def __init__(self, stoker: StokerHome) -> None:
        self.stoker = stoker
        self.record = stoker.root / "record"
        stoker.env["RECORD"] = str(self.record)
        (stoker.work / "train.sh").write_text(TRAIN)

    def queue(self, *words: str) -> str:
        """Queue a sweep; its name."""
        return self.stoker.stoker("sweep", *words).strip()

    def run(self, *words: str) -> str:
        """Queue a sweep and wait until all of it has ended."""
        name = self.queue(*words)
        self.stoker.cli("wait", "--group", name)
        return name

    def runs(self) -> list[list[str]]:
        """The arguments of every run so far."""
        return [line.split("|")[1:-1] for line in lines_of(self.record)]

    def shown(self, name: str) -> dict[str, Any]:
        """`sweep show --json`."""
        answer: dict[str, Any] = json.loads(self.stoker.stoker("sweep", "show", name, "--json"))
        return answer

    def states(self, name: str) -> list[str]:
        return [point["state"] for point in self.shown(name)["points"]]


@pytest.fixture
def sweeps(reused: StokerHome) -> Sweeps:
    return Sweeps(reused)


def test_every_point_of_a_grid_runs_once_in_order_on_a_gpu_of_its_own(sweeps: Sweeps) -> None:
    name = sweeps.run("lr=0.1,1e-2", "bs=range(16,49,16)", "--", "sh", "train.sh", "{lr}", "b{bs}")
    wanted = [[lr, f"b{bs}"] for lr in ("0.1", "1e-2") for bs in (16, 32, 48)]
    assert sorted(sweeps.runs()) == sorted(wanted)
    assert all(line[0] in "0123" for line in lines_of(sweeps.record))
    points = sweeps.shown(name)["points"]
    assert [point["command"] for point in points] == [f"sh train.sh {lr} {bs}" for lr, bs in wanted]
    assert [point["params"] for point in points] == [
        {"lr": lr, "bs": bs} for lr in (0.1, 0.01) for bs in (16, 32, 48)
    ]


def test_the_example_of_the_description_samples_pairs_and_distributions(sweeps: Sweeps) -> None:
    words = (
        "lr=0.1,0.01", "bs=range(16,65,16)", "accum=1,4,8", "wd=loguniform(1e-6,1e-2)",
        "m=zip(model=[vit,resnet],opt=[adamw,sgd])",
        "--samples", "40", "--seed", "0", "--where", "bs*accum <= 256", "--max-running", "4",
        "--", "sh", "train.sh", "--lr", "{lr}", "--bs", "{bs}",
    )  # fmt: skip
    name = sweeps.run(*words)
    points = sweeps.shown(name)["points"]
    assert len(points) == len(sweeps.runs()) == 40
    assert {point["state"] for point in points} == {"succeeded"}
    for point in points:
        params = point["params"]
        assert params["bs"] * params["accum"] <= 256
        assert 1e-6 <= params["wd"] <= 1e-2
        assert (params["model"], params["opt"]) in {("vit", "adamw"), ("resnet", "sgd")}
    assert sweeps.runs()[0][4::2] == ["--accum", "--wd", "--model", "--opt"]
    # The same seed, the same points: nothing is left to run.
    ran = sweeps.stoker.cli("sweep", *words)
    assert "40 points: 0 queued, 40 succeeded before" in ran.err
    assert len(sweeps.runs()) == 40


def test_only_so_many_of_a_sweep_run_at_a_time(sweeps: Sweeps) -> None:
    name = sweeps.queue("x=range(4)", "--max-running", "2", "--", PATIENT + "; true {x}")

    def running() -> int:
        return sweeps.states(name).count("running")

    eventually(lambda: running() == 2, "two run")
    other = sweeps.stoker.submit("true")
    # A job of no group has a GPU at once, so it was not for want of GPUs that only two ran.
    sweeps.stoker.until_final(other)
    assert running() == 2
    why = sweeps.stoker.stoker("why", str(sweeps.stoker.nth(4)))
    assert "2" in why
    (sweeps.stoker.work / "go").touch()
    sweeps.stoker.cli("wait", "--group", name)
    assert sweeps.states(name) == ["succeeded"] * 4


# ---------------------------------------------------------------------- once more


def test_a_sweep_submitted_again_runs_only_what_is_new(sweeps: Sweeps) -> None:
    command = ("--", "sh", "train.sh", "{lr}")
    first = sweeps.run("lr=1,2", *command)
    again = sweeps.stoker.cli("sweep", "lr=1,2.0,2,3", *command)
    assert again.out.strip() == first
    assert "4 points: 2 queued, 2 succeeded before" in again.err
    sweeps.stoker.cli("wait", "--group", first)
    assert sorted(sweeps.runs()) == [["1"], ["2"], ["2.0"], ["3"]]
    assert len(sweeps.shown(first)["points"]) == 4


def test_a_point_that_failed_was_cancelled_or_is_gone_runs_again(sweeps: Sweeps) -> None:
    broken = sweeps.stoker.work / "broken"
    broken.touch()
    words = ("lr=1,2,3", "--", "sh", "train.sh")
    name = sweeps.run(*words)
    assert sweeps.states(name) == ["failed"] * 3
    broken.unlink()
    sweeps.stoker.stoker("rm", str(sweeps.stoker.nth(2)))
    assert sweeps.run(*words) == name
    assert sweeps.states(name) == ["succeeded"] * 3
    assert sorted(sweeps.runs()) == [["--lr", str(n)] for n in (1, 1, 2, 2, 3, 3)]
    held = sweeps.queue("lr=1,2,3,4", "--hold", *words[1:])
    sweeps.stoker.stoker("cancel", "last")
    assert (
        "4 points: 1 queued, 3 succeeded"
        in sweeps.stoker.cli("sweep", "lr=1,2,3,4", *words[1:]).err
    )
    sweeps.stoker.cli("wait", "--group", held)
    assert sweeps.states(name) == ["succeeded"] * 4


def test_points_that_are_queued_or_running_are_left_alone(sweeps: Sweeps) -> None:
    words = ("x=1,2", "--hold", "--", "sh", "train.sh")
    sweeps.queue(*words)
    for more in ((), ("--rerun", "all"), ("--rerun", "failed")):
        ran = sweeps.stoker.cli("sweep", *more, *words)
        assert "2 points: 0 queued, 2 queued or running already" in ran.err
    assert len(sweeps.stoker.jobs()) == 2


def test_rerun_takes_the_failed_ones_only_or_all(sweeps: Sweeps) -> None:
    broken = sweeps.stoker.work / "broken"
    command = ("--", "sh", "train.sh")
    sweeps.run("x=1", *command)
    broken.touch()
    sweeps.run("x=1,2", *command)
    broken.unlink()
    failed = sweeps.stoker.cli("sweep", "x=1,2,3", "--rerun", "failed", *command)
    assert "3 points: 1 queued, 1 succeeded before, 1 not tried yet" in failed.err
    sweeps.stoker.cli("wait", "--group", failed.out.strip())
    name = sweeps.run("x=1,2,3", "--rerun", "all", *command)
    assert sorted(sweeps.runs()) == [["--x", str(n)] for n in (1, 1, 2, 2, 2, 3)]
    assert sweeps.states(name) == ["succeeded"] * 3


def test_the_same_command_elsewhere_is_another_sweep(sweeps: Sweeps) -> None:
    other = sweeps.stoker.root / "other"
    other.mkdir()
    (other / "train.sh").write_text(TRAIN)
    words = ("sweep", "x=1", "--", "sh", "train.sh")
    names = {sweeps.stoker.cli(*words).out, sweeps.stoker.cli(*words, cwd=other).out}
    assert len(names) == 2
    for name in names:
        sweeps.stoker.cli("wait", "--group", name.strip())
    assert len(sweeps.runs()) == 2


def test_two_sweeps_queued_at_once_do_not_get_mixed_up(sweeps: Sweeps) -> None:
    processes = [
        sweeps.stoker.popen("sweep", "x=range(50)", "--hold", "--name", f"s{n}", "--",
                            "sh", "train.sh", f"{n}")
        for n in range(3)
    ]  # fmt: skip
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    for n in range(3):
        points = sweeps.shown(f"s{n}")["points"]
        assert [point["params"]["x"] for point in points] == list(range(50))


# ---------------------------------------------------------------------- forms of a space


def test_the_older_form_of_parameters_is_taken(sweeps: Sweeps) -> None:
    sweeps.run("-p", "lr", "0.1", "-0.2", "-p", "bs", "32", "--", "sh", "train.sh", "{lr}")
    assert sorted(sweeps.runs()) == [["-0.2", "--bs", "32"], ["0.1", "--bs", "32"]]


def test_repeats_add_a_parameter_that_counts(sweeps: Sweeps) -> None:
    sweeps.run("lr=1,2", "--repeat", "seed=2", "--", "sh", "train.sh", "{lr}")
    assert sorted(sweeps.runs()) == [[lr, "--seed", seed] for lr in "12" for seed in "01"]


def test_hydra_style_appends_name_equals_value(sweeps: Sweeps) -> None:
    words = ("opt.lr=0.1", "note='a,b'", "--style", "hydra", "--", "sh", "train.sh")
    sweeps.run(*words)
    assert sweeps.runs() == [["opt.lr=0.1", "note='a,b'"]]


def test_a_shuffled_grid_is_queued_in_another_order(sweeps: Sweeps) -> None:
    command = ("--hold", "--", "sh", "train.sh")
    plain = sweeps.queue("x=range(30)", "--name", "plain", *command, "a")
    shuffled = sweeps.queue("x=range(30)", "--shuffle", "--name", "shuffled", *command, "b")

    def order(name: str) -> list[int]:
        return [point["params"]["x"] for point in sweeps.shown(name)["points"]]

    assert order(plain) == list(range(30))
    assert sorted(order(shuffled)) == list(range(30)) != order(shuffled)


YAML = """\
program: train.sh
method: grid
name: from-file
description: two by two
parameters:
  lr: {values: [0.1, 1e-2]}
  amp: {values: [true, false]}
  data: {value: "a b"}
command: [sh, "${program}", "${args_no_boolean_flags}"]
"""


def test_a_file_with_the_keys_of_wandb_is_a_sweep(sweeps: Sweeps) -> None:
    (sweeps.stoker.work / "sweep.yaml").write_text(YAML)
    ran = sweeps.stoker.cli("sweep", "-f", "sweep.yaml")
    assert ran.out == "from-file\n"
    assert "ignored in sweep.yaml: description" in ran.err
    sweeps.stoker.cli("wait", "--group", "from-file")
    assert sorted(sweeps.runs()) == sorted(
        [f"--lr={lr}", *amp, "--data=a b"] for lr in ("0.1", "0.01") for amp in (["--amp"], [])
    )


def test_the_command_line_adds_to_a_file_and_replaces_what_is_in_it(sweeps: Sweeps) -> None:
    (sweeps.stoker.work / "sweep.toml").write_text(
        'method = "random"\nrun_cap = 3\n[parameters]\nx = {min = 1, max = 100}\ny = {value = 1}\n'
    )
    name = sweeps.run("-f", "sweep.toml", "y=5", "--name", "mine", "--", "sh", "train.sh", "{x}")
    assert name == "mine"
    points = sweeps.shown("mine")["points"]
    assert len(points) == 3
    assert all(1 <= p["params"]["x"] <= 100 and p["params"]["y"] == 5 for p in points)


def test_hostile_values_reach_the_command_as_they_are(sweeps: Sweeps) -> None:
    hostile = ["$(touch pwned)", "; touch pwned;", "' \"", "a b", "*", "`touch pwned`", "\\"]
    sweeps.run("-p", "x", *hostile, "--", "sh", "train.sh", "{x}")
    sweeps.run("-p", "x", *hostile, "--", 'sh train.sh "{x}" | cat; sh train.sh {x}')
    assert sorted(sweeps.runs()) == sorted([text] for text in hostile * 3)
    assert not (sweeps.stoker.work / "pwned").exists()


def test_the_options_of_add_hold_for_each_point(sweeps: Sweeps) -> None:
    first = sweeps.stoker.submit("true")
    (sweeps.stoker.work / "out").mkdir()
    sweeps.run(
        "x=1,2", "--gpus", "2", "--priority", "3", "--env", "K=V", "--retries", "2",
        "--after", "last", "--time-limit", "1h", "--out", "out/{x}-{point}.txt", "--",
        "sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES $K" {x}',
    )  # fmt: skip
    jobs = [job for job in sweeps.stoker.jobs().values() if job["point"]]
    assert len(jobs) == 2
    for job in jobs:
        assert (job["need"]["gpus"], job["priority"], job["retries"]) == (2, 3, 2)
        assert (job["after"], job["time_limit_ms"]) == ([first], 3_600_000)
        assert job["name"] == f"x={job['params']['x']}"
        out = Path(job["log"])
        assert out.parent == sweeps.stoker.work / "out"
        assert out.name == f"{job['params']['x']}-{job['point'].removeprefix(PREFIX)[:10]}.txt"
        gpus, value, _ = out.read_text().split()
        assert (len(gpus.split(",")), value) == (2, "V")


# ---------------------------------------------------------------------- looking


def test_show_has_a_row_a_point_with_what_varies(sweeps: Sweeps) -> None:
    name = sweeps.run("lr=0.1,0.01", "data=mnist", "--", "sh", "-c", "exit {lr:.0f}$((1))")
    ran = sweeps.stoker.cli("sweep", "show", name)
    header, *rows = ran.out.splitlines()
    assert header.split() == ["ID", "STATE", "lr", "TIME", "GPUS", "EXIT"]
    one, two = str(sweeps.stoker.nth(1)), str(sweeps.stoker.nth(2))
    assert [row.split()[:3] for row in rows] == [[one, "failed", "0.1"], [two, "failed", "0.01"]]
    assert [row.split()[-1] for row in rows] == ["1", "1"]
    assert ran.err == "2 points: 2 failed\n"


FORMULAS = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1"]
HARMLESS = ["-0.5", "1e-3", "a=b", "word-"]


def test_csv_has_no_formula_and_a_terminal_gets_no_escape(sweeps: Sweeps) -> None:
    escape = "\x1b]0;owned\x07\x9b31m"
    values = [*FORMULAS, *HARMLESS, f"x{escape}"]
    jobs = [{"argv": ["true"], "group": "hostile", "hold": True, "point": f"{PREFIX}{n}",
             "params": {"note": value, f"=p{escape}": n}}
            for n, value in enumerate(values)]  # fmt: skip
    sweeps.stoker.submit_all(jobs)
    words = ("sweep", "show", "hostile", "--csv")
    file = sweeps.stoker.stoker(*words)
    head, *rows = csv.reader(io.StringIO(file))
    assert head[2:4] == ["note", f"'=p{escape}"]
    wanted = [f"'{text}" for text in FORMULAS] + HARMLESS + [f"x{escape}"]
    assert [row[2] for row in rows] == wanted
    with Terminal(sweeps.stoker.work, *words, **sweeps.stoker.env) as terminal:
        assert terminal.wait() == 0
        assert b"x\\x1b]0;owned\\x07\\x9b31m" in terminal.screen
        assert b"'=1+1" in terminal.screen
        assert b"\x1b" not in terminal.screen and "\x9b".encode() not in terminal.screen


def test_show_as_csv_and_json_for_scripts(sweeps: Sweeps) -> None:
    name = sweeps.run("id=1,2", 'note="a,b"', "--repeat", "seed=2", "--", "sh", "train.sh")
    table = list(csv.DictReader(io.StringIO(sweeps.stoker.stoker("sweep", "show", name, "--csv"))))
    assert list(table[0]) == [
        "id", "state", "param_id", "seed", "run_time_s", "gpus", "exit_code", "signal",
    ]  # fmt: skip
    assert [(row["param_id"], row["seed"]) for row in table] == [
        ("1", "0"), ("1", "1"), ("2", "0"), ("2", "1"),
    ]  # fmt: skip
    assert all(float(row["run_time_s"]) >= 0 and row["exit_code"] == "0" for row in table)
    answer = sweeps.shown(name)
    assert (answer["schema"], answer["sweep"], answer["varied"]) == (1, name, ["id", "seed"])
    assert answer["counts"] == {"succeeded": 4}
    point = answer["points"][0]
    assert point["params"] == {"id": 1, "note": "a,b", "seed": 0}
    assert point["gpus"][0] in "0123"
    assert point["started_at"] <= point["ended_at"]


def test_a_sweep_is_found_by_its_name_a_job_of_it_or_as_the_last(sweeps: Sweeps) -> None:
    one = sweeps.queue("x=1,2", "--hold", "--name", "one", "--", "sh", "train.sh")
    sweeps.queue("x=1,2", "--hold", "--name", "two", "--", "sh", "train.sh", "b")
    single = sweeps.stoker.submit("true")
    second = str(sweeps.stoker.nth(2))
    assert sweeps.shown(one)["sweep"] == sweeps.shown(second)["sweep"] == "one"
    assert sweeps.shown("last")["sweep"] == "two"
    for word, said in (
        ("none", "none"),
        ("9999999", "9999999"),
        (str(single), "not part of a sweep"),
    ):
        ran = sweeps.stoker.cli("sweep", "show", word)
        assert (ran.code, ran.out) == (3, "")
        assert said in ran.err
    listed = json.loads(sweeps.stoker.stoker("sweep", "ls", "--json"))["sweeps"]
    assert [(sweep["sweep"], sweep["points"]) for sweep in listed] == [("one", 2), ("two", 2)]
    assert "2 held" in sweeps.stoker.stoker("sweep", "ls")


def test_a_dry_run_prints_the_count_and_the_first_points_and_queues_nothing(
    home: StokerHome,
) -> None:
    words = ("sweep", "x=range(30)", "--dry-run", "--", "echo", "a b", "{x}")
    ran = home.cli(*words)
    assert ran.code == 0
    assert ran.out.splitlines()[:3] == ["30 points", "echo 'a b' 0", "echo 'a b' 1"]
    assert len(ran.out.splitlines()) == 11
    assert ran.err == "and 20 more\n"
    answer = json.loads(home.stoker(*words[:2], "--json", *words[2:]))
    assert answer["count"] == 30
    assert answer["points"][1] == {"params": {"x": 1}, "command": "echo 'a b' 1"}
    # No daemon was needed, and none was started.
    assert not Path(home.home.socket).exists()


def test_json_says_what_was_queued(sweeps: Sweeps) -> None:
    answer = json.loads(
        sweeps.stoker.stoker("sweep", "x=1,2", "--json", "--hold", "--", "sh", "train.sh")
    )
    assert answer["ids"] == [sweeps.stoker.nth(1), sweeps.stoker.nth(2)]
    assert (answer["schema"], answer["count"], answer["unfinished"]) == (1, 2, 0)


def test_every_field_of_json_is_documented(sweeps: Sweeps) -> None:
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    words = ("x=1", "--hold", "--json", "--", "sh", "train.sh")
    for printed in (
        sweeps.stoker.stoker("sweep", "--dry-run", *words),
        sweeps.stoker.stoker("sweep", *words),
        sweeps.stoker.stoker("sweep", "show", "last", "--json"),
        sweeps.stoker.stoker("sweep", "ls", "--json"),
    ):
        answer = json.loads(printed)
        assert answer["schema"] == 1
        points = answer.get("points") or answer.get("sweeps") or [{}]
        for field in (*answer, *points[0]):
            assert f"`{field}`" in page or f'"{field}"' in page, field


def test_the_examples_of_help_and_docs_are_good_sweeps(home: StokerHome) -> None:
    page = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text(encoding="utf-8")
    _, _, file = page.partition('```yaml title="sweep.yaml"\n')
    (home.work / "sweep.yaml").write_text(file.partition("```")[0])
    program = home.root / "bin" / "python"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    lines = [line for line, _ in VERB.examples]
    lines += [line for line in page.splitlines() if line.startswith("stoker sweep ")]
    tried = 0
    for line in lines:
        _, _, *words = shlex.split(line)
        if words[0] == "show":
            continue
        ran = home.cli(
            "sweep", "--dry-run", *words, env={"PATH": f"{program.parent}:{home.env['PATH']}"}
        )
        assert ran.code == 0, ran
        assert " points\n" in ran.out
        tried += 1
    assert tried >= 6


def test_many_thousand_points_are_queued_in_a_few_messages(sweeps: Sweeps) -> None:
    sweeps.stoker.stoker("pause")
    name = sweeps.queue("a=range(120)", "b=range(100)", "--", "true", "{a}", "{b}")
    again = sweeps.stoker.cli("sweep", "a=range(120)", "b=range(100)", "--", "true", "{a}", "{b}")
    assert "12000 points: 0 queued, 12000 queued or running already" in again.err
    points = sweeps.shown(name)["points"]
    assert [point["id"] for point in points] == list(
        range(sweeps.stoker.nth(1), sweeps.stoker.nth(12_001))
    )
    assert points[-1]["params"] == {"a": 119, "b": 99}


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--", "true", "x"], "no parameter"),
        (["lr=1"], "no command"),
        (["lr=1", "--"], "no command"),
        (["lr=1", "--", ""], "empty"),
        (["lr", "--", "true", "x"], "NAME=VALUES"),
        (["lr=1", "lr=2", "--", "true", "x"], "twice"),
        (["lr=uniform(0,1)", "--", "true", "x"], "--samples"),
        (["lr=1", "--where", "lr.x", "--", "true", "x"], "--where"),
        (["lr=1", "--where", "10**10**10 > lr", "--", "true", "x"], "too large"),
        (["lr=1", "--where", "lr > 2", "--", "true", "x"], "no point is left"),
        (["lr=1", "--repeat", "3", "--", "true", "x"], "NAME=COUNT"),
        (["lr=1", "--repeat", "seed=0", "--", "true", "x"], "too small"),
        (["lr=1", "--repeat", "a b=2", "--", "true", "x"], "name"),
        (["lr=1", "--samples", "0", "--", "true", "x"], "too small"),
        (["lr=1", "--style", "fancy", "--", "true", "x"], "flags or hydra"),
        (["lr=1", "--rerun", "none", "--", "true", "x"], "failed or all"),
        (["lr=1", "--max-running", "0", "--", "true", "x"], "too small"),
        (["lr=1", "--name", "7", "--", "true", "x"], "job's id"),
        (["lr=1", "--group", "g", "--", "true", "x"], "--group"),
        (["-p", "lr", "--", "true", "x"], "no values"),
        (["-p", "--", "true", "x"], "-p needs a value"),
        (["lr=1", "--", "true", "{bs}"], "{bs} is not a parameter"),
        (["lr=1", "--", "no-such-program", "x"], "not found"),
        (["lr=1,2", "--", "./{lr}", "x"], "not found"),
        (["lr=1,2", "--out", "log.txt", "--", "true", "x"], "one file"),
        (["lr=1,2", "--out", "/dev/null/{lr}", "--", "true", "x"], "no directory"),
        (["-f", "none.yaml"], "No such file"),
        (["a=range(2000)", "b=range(2000)", "--", "true", "x"], "4000000 points"),
        (["lr=\udcff", "--", "true", "x"], "UTF-8"),
    ],
)
def test_bad_input_is_one_line_and_not_even_a_daemon_is_started(
    home: StokerHome, words: list[str], said: str
) -> None:
    ran = home.cli("sweep", *words)
    assert (ran.code, ran.out) == (2, ""), ran
    assert ran.err.count("\n") == 1
    assert said in ran.err
    assert not Path(home.home.socket).exists()


def test_what_the_daemon_refuses_for_one_point_is_queued_for_none(reused: StokerHome) -> None:
    for words, code, said in (
        (["lr=1,2", "--gpus", "9", "--", "true", "x"], 2, "9 GPUs"),
        (["lr=1,2", "--after", "9999999", "--", "true", "x"], 3, "9999999"),
        (["lr=1,2", "--mem", "8G", "--", "true", "x"], 2, "memory"),
    ):
        ran = reused.cli("sweep", *words)
        assert (ran.code, ran.out) == (code, ""), ran
        assert ran.err.count("\n") == 1
        assert said in ran.err
    assert reused.jobs() == {}


def test_a_random_file_without_an_end_is_refused(reused: StokerHome) -> None:
    (reused.work / "s.toml").write_text('method = "random"\n[parameters]\nx = {values = [1]}\n')
    ran = reused.cli("sweep", "-f", "s.toml", "--", "true", "x")
    assert (ran.code, ran.out) == (2, "")
    assert "run_cap" in ran.err


def time_spent_s(stoker: StokerHome) -> float:
    """The processor time of the daemon and of all commands so far, which no load makes longer."""
    fields = Path(f"/proc/{stoker.daemon_pid()}/stat").read_text().rpartition(")")[2].split()
    daemon_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    commands = resource.getrusage(resource.RUSAGE_CHILDREN)
    return daemon_s + commands.ru_utime + commands.ru_stime


def test_long_sweeps_are_shown_in_less_time_than_it_takes_to_queue_them(sweeps: Sweeps) -> None:
    sweeps.stoker.call("pause")
    began_s = time_spent_s(sweeps.stoker)
    sweeps.queue("a=range(200)", "b=range(100)", "--name", "long", "--", "true")
    queued_s = time_spent_s(sweeps.stoker)
    shown = sweeps.stoker.cli("sweep", "show", "long")
    listed = sweeps.stoker.cli("sweep", "ls")
    shown_s = time_spent_s(sweeps.stoker)
    assert len(shown.out.splitlines()) == 20_001
    assert shown.out.splitlines()[-1].split()[1:] == ["waiting", "199", "99"]
    assert shown.err == "20000 points: 20000 waiting\n"
    assert listed.out.splitlines()[1].split()[:6] == [
        "long",
        "20000",
        "20000",
        "waiting",
        "a,",
        "b",
    ]
    # It was half as long again, when each point was asked for with all that is known of it.
    assert shown_s - queued_s < queued_s - began_s


def test_two_sweeps_at_the_same_moment_queue_each_point_once(sweeps: Sweeps) -> None:
    words = ("x=range(300)", "--name", "twice", "--", "true")
    sweeps.stoker.call("pause")
    both = [sweeps.stoker.popen("sweep", *words, stderr=subprocess.PIPE) for _ in range(4)]
    said = [process.communicate(timeout=PATIENCE_S)[1].decode() for process in both]
    assert [process.returncode for process in both] == [0] * 4, said
    jobs = sweeps.stoker.call("list", all=True)["jobs"]
    points = [job["point"] for job in jobs]
    assert len(points) == len(set(points)) == 300
    queued = [int(text.split(": ")[1].split(" queued")[0]) for text in said]
    assert sum(queued) == 300, said


def request(stoker: StokerHome, *points: str, **fields: Any) -> dict[str, Any]:
    """A submission of points."""
    jobs = [{"argv": ["true"], "point": point, "gpus": 0} for point in points]
    order = {"jobs": jobs, "cwd": str(stoker.work), "env": stoker.env}
    return order | fields


Outcome = tuple[list[int], dict[str, int]]


def test_a_point_gets_another_job_by_what_became_of_its_latest_one(reused: StokerHome) -> None:
    def queued(*points: str, **fields: Any) -> Outcome:
        """Which jobs come of a submission, counted from one, and who is left out."""
        answer = reused.call("submit", **request(reused, *points, **fields))
        left_out = {why: count for why, count in answer["left_out"].items() if count}
        return [job_id - reused.first_id + 1 for job_id in answer["ids"]], left_out

    done, failed, held, new = "sweep:done", "sweep:failed", "sweep:held", "sweep:new"
    reused.submit("true", point=done)
    reused.submit("false", point=failed)
    reused.until_final(reused.nth(1), reused.nth(2))
    reused.submit("true", point=held, hold=True)
    assert queued(done, failed, held, rerun="missing") == ([4], {"succeeded": 1, "unfinished": 1})
    assert queued(done, new, held, rerun="failed") == (
        [],
        {"succeeded": 1, "not_tried": 1, "unfinished": 1},
    )
    assert queued(done, held, rerun="all") == ([5], {"unfinished": 1})
    # The latest job counts, and not the first.
    reused.until_final(reused.nth(4))
    assert queued(failed, rerun="missing") == ([], {"succeeded": 1})
    # Within one submission, too, a point is queued once.
    assert queued(new, new, rerun="missing") == ([6], {"unfinished": 1})
    # Without a word of it, everything is queued, and nothing is said of it.
    answer = reused.call("submit", **request(reused, done, done))
    assert len(answer["ids"]) == 2 and "left_out" not in answer


def test_a_submission_of_points_that_is_repeated_with_its_token_has_the_same_answer(
    reused: StokerHome,
) -> None:
    reused.submit("true", point="sweep:a")
    reused.until_final(reused.nth(1))
    reused.submit("true", point="sweep:b", hold=True)
    points = ("sweep:a", "sweep:b", "sweep:c", "sweep:d")
    order = request(reused, *points, rerun="missing", token=uuid4().hex)
    first = reused.call("submit", **order)
    assert first["ids"] == [reused.nth(3), reused.nth(4)]
    assert first["left_out"] == {"succeeded": 1, "unfinished": 1, "not_tried": 0}
    assert reused.call("submit", **order) == first
    reused.until_final(*first["ids"])
    assert reused.call("submit", **order) == first
