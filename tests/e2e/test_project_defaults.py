"""The file stoker.toml of a project: which jobs it counts for, and what comes before it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.api.job_options import JOB_OPTIONS
from stoker.library.client import Client as Library
from stoker_home import StokerHome

FILE = """
mem = "2G"
time-limit = "3h"
name = "{project}-{script}"
retries = 2

[env]
WANDB_MODE = "offline"
SEED = "1"
"""


@pytest.fixture
def project(reused: StokerHome) -> Path:
    """A project with a file, in the directory that commands are given in."""
    reused.call("config_set", name="gpus", value="0:8G,1:8G")
    reused.call("pause")
    (reused.work / "stoker.toml").write_text(FILE)
    return reused.work


def said_of(stoker: StokerHome, job_id: int) -> dict[str, Any]:
    """What a job has of the options that the file has."""
    job = stoker.job(job_id)
    own = {key: job[key] for key in ("name", "time_limit_ms", "retries")}
    return {**own, "mem_mib": job["need"]["mem_mib"]}


def expected(project: Path, **other: Any) -> dict[str, Any]:
    named = {"name": f"{project.name}-train", "time_limit_ms": 10_800_000, "retries": 2}
    return {**named, "mem_mib": 2048, **other}


def test_a_job_has_the_defaults_of_its_project_and_what_is_said_comes_before_them(
    reused: StokerHome, project: Path
) -> None:
    (project / "train.py").touch()
    words = ("--", sys.executable, "train.py")
    assert said_of(reused, reused.add(*words)) == expected(project)
    own = reused.add("--mem", "1G", "--name", "mine", "--time-limit", "60s", *words)
    assert said_of(reused, own) == expected(
        project, mem_mib=1024, name="mine", time_limit_ms=60_000
    )


def test_the_file_is_found_from_directories_below_and_from_that_of_the_job(
    reused: StokerHome, project: Path, tmp_path: Path
) -> None:
    below = project / "a" / "b"
    below.mkdir(parents=True)
    job = reused.add("--cwd", str(below), "--", "true", "x")
    assert said_of(reused, job)["mem_mib"] == 2048
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    job = reused.add("--cwd", str(elsewhere), "--", "true", "x")
    assert said_of(reused, job)["mem_mib"] is None
    (below / "stoker.toml").write_text('mem = "3G"\n')
    job = reused.add("--cwd", str(below), "--", "true", "x")
    assert said_of(reused, job) == {
        "mem_mib": 3072, "name": None, "retries": 0, "time_limit_ms": None,
    }  # fmt: skip


def test_variables_of_the_file_are_set_beneath_those_of_the_command(
    reused: StokerHome, project: Path
) -> None:
    job = reused.add("--env", "SEED=2", "--", "sh", "-c", "echo $WANDB_MODE $SEED")
    reused.call("resume")
    reused.until_final(job)
    assert reused.log_of(job) == "offline 2\n"


def test_a_default_that_does_not_go_with_what_is_said_is_left_out(
    reused: StokerHome, project: Path
) -> None:
    job = reused.add("--gpus", "0", "--", "true", "x")
    assert said_of(reused, job)["mem_mib"] is None
    (project / "stoker.toml").write_text('time-limit = "1h"\nsignal = "USR1@10m"\n')
    short = reused.job(reused.add("--time-limit", "5m", "--", "true", "x"))
    assert short["signal_spec"] is None and short["time_limit_ms"] == 300_000
    assert reused.job(reused.add("--", "true", "x"))["signal_spec"] == "USR1@600s"


def test_sweeps_batches_feeds_and_python_have_them_too(reused: StokerHome, project: Path) -> None:
    reused.stoker("sweep", "lr=1", "--", "echo", "{lr}")
    (project / "jobs.csv").write_text("command,mem\ntrue x,\ntrue y,1G\n")
    reused.stoker("batch", "--no-wait", "jobs.csv")
    program = (
        "import stoker\n"
        "client = stoker.Client()\n"
        "client.add(['true', 'x']); client.add(['true', 'x'], mem='1G')\n"
        "client.sweep(['echo', '{lr}'], {'lr': [2]})\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=project, env=reused.env, check=True)
    found = [said_of(reused, reused.nth(number)) for number in range(1, 7)]
    assert [one["mem_mib"] for one in found] == [2048, 2048, 1024, 2048, 1024, 2048]
    assert [one["retries"] for one in found] == [2] * 6
    assert found[0]["name"] == "lr=1", "points are called by their values"
    assert found[3]["name"] == f"{project.name}-true"


def test_a_feed_has_them(reused: StokerHome, project: Path) -> None:
    reused.call("resume")
    (project / "lines").write_text("true\n")
    reused.stoker("feed", "lines")
    assert said_of(reused, reused.first_id)["mem_mib"] == 2048


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tme-limit = '2h'", "a job has no option 'tme-limit'; did you mean time_limit?"),
        ("mem = 'much'", "mem: "),
        ("time-limit = 2", "time-limit: '2' has no unit; 2m or 2h?"),
        ("mem = ", "Invalid value"),
        ("after = '3'", "after: it is about one job"),
        (
            "name = 'run-{id}'",
            "name: a name can't have '{id}'; write {project}, {script} or {date}, or no braces",
        ),
        ("gpus = 0\nmem = '2G'", "--mem makes no sense for a job without GPUs"),
    ],
)
def test_errors_name_the_file_and_the_key(
    reused: StokerHome, project: Path, text: str, message: str
) -> None:
    (project / "stoker.toml").write_text(text)
    ran = reused.cli("add", "--", "true", "x")
    assert ran.code == 2 and f"{project}/stoker.toml: {message}" in ran.err
    assert ran.err.count("\n") == 1


def test_what_is_said_of_a_job_undoes_a_contradiction_of_the_file(
    reused: StokerHome, project: Path
) -> None:
    (project / "stoker.toml").write_text("gpus = 0\nexclusive = true\n")
    refused = reused.cli("add", "--", "true", "x")
    assert "stoker.toml: --exclusive makes no sense for a job without GPUs" in refused.err
    assert "--exclusive makes no sense" in reused.cli("config").err
    job = reused.job(reused.add("--no-exclusive", "--", "true", "x"))
    assert (job["need"]["gpus"], job["need"]["exclusive"]) == (0, False)
    job = reused.job(reused.add("--gpus", "1", "--", "true", "x"))
    assert (job["need"]["gpus"], job["need"]["exclusive"]) == (1, True)
    assert reused.cli("add", "--priority", "3", "--", "true", "x").code == 2


def test_notify_without_an_address_names_the_file_before_anything_is_frozen(
    reused: StokerHome, project: Path
) -> None:
    (project / "stoker.toml").write_text("notify = true\nfreeze = true\n")
    (project / "jobs.csv").write_text("command\ntrue x\n")
    trees = Path(reused.home.root) / "frozen" / "trees"
    before = sorted(trees.glob("*"))
    for words in (
        ("add", "--", "true", "x"),
        ("sweep", "lr=1", "--", "echo", "{lr}"),
        ("batch", "--no-wait", "jobs.csv"),
    ):
        ran = reused.cli(*words)
        assert ran.code == 2 and ran.err.count("\n") == 1, words
        assert f"{project}/stoker.toml: notify has no address to send to" in ran.err
    assert sorted(trees.glob("*")) == before
    assert "stoker.toml" not in reused.cli("add", "--no-notify", "--", "true", "x").err


def test_config_shows_the_settings_also_where_the_file_is_broken(
    reused: StokerHome, project: Path
) -> None:
    (project / "stoker.toml").write_text("gpus = = 1\n")
    ran = reused.cli("config")
    assert ran.code == 2 and ran.err.count("\n") == 1
    assert f"{project}/stoker.toml: " in ran.err and "\ngrace " in ran.out
    ran = reused.cli("config", "--json")
    told = json.loads(ran.out)
    assert ran.code == 2 and told["settings"] and told["project"]["file"] is None


def test_config_shows_what_comes_from_where(reused: StokerHome, project: Path) -> None:
    shown = reused.stoker("config")
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert "config set" in lines["gpus"] and "default" in lines["grace"]
    assert "3h" in lines["time-limit"] and "stoker.toml" in lines["time-limit"]
    told = json.loads(reused.stoker("config", "list", "--json"))
    assert told["project"]["file"] == str(project / "stoker.toml")
    assert told["project"]["options"]["env"] == "WANDB_MODE=offline SEED=1"


def test_the_search_ends_at_the_home_directory_and_leaves_out_strangers_files(
    reused: StokerHome, project: Path
) -> None:
    home = project / "home"
    inner = home / "code"
    inner.mkdir(parents=True)

    def mem_of_next() -> Any:
        words = ("add", "--cwd", str(inner), "--", "true", "x")
        ran = reused.cli(*words, env={"HOME": str(home)})
        return reused.job(int(ran.out))["need"]["mem_mib"]

    assert mem_of_next() is None, "what is above the home directory does not count"
    (home / "stoker.toml").write_text('mem = "1G"\n')
    assert mem_of_next() == 1024
    if os.getuid() == 0:
        home.chmod(0o1777)
        os.chown(home / "stoker.toml", 12345, 12345)
        assert mem_of_next() is None, "another user has put it where everybody may"


FLAGS = (
    "exclusive", "freeze", "env-all", "append", "gpu-arg", "keep-children", "hold", "notify", "mps",
    "on-cluster", "overwrite", "requeue", "keep-place", "preemptible", "urgent",
)  # fmt: skip


def test_every_flag_of_the_table_is_among_those_tried_here() -> None:
    assert {option.name for option in JOB_OPTIONS if option.is_flag} == set(FLAGS)


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_of_the_file_is_switched_off_in_the_command_in_python_and_in_a_cell(
    reused: StokerHome, project: Path, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "stoker.toml").write_text("")
    fields = ("options", "need", "state", "notify", "mps", "executor", "cwd", "command")

    def shown(job_id: int) -> dict[str, Any]:
        return {name: reused.job(job_id)[name] for name in fields}

    plain = shown(reused.add("--", "true", "x"))
    (project / "stoker.toml").write_text(f"{flag} = true\n")
    assert shown(reused.add(f"--no-{flag}", "--", "true", "x")) == plain
    monkeypatch.chdir(project)
    with Library(home=reused.home.root) as library:
        options: dict[str, Any] = {flag.replace("-", "_"): False}
        assert shown(library.add(["true", "x"], **options)) == plain
    (project / "jobs.csv").write_text(f"command,{flag}\ntrue x,no\n")
    reused.stoker("batch", "--no-wait", "jobs.csv")
    last = max(reused.jobs())
    assert shown(last)["options"] == plain["options"] and shown(last)["state"] == plain["state"]


# What a file says of each option that `none` takes away; a second line stays for the job.
CLEARED = {
    "mem": 'mem = "2G"',
    "on": 'on = "1"',
    "prefer": "prefer = [1]",
    "thread-percentage": "thread-percentage = 50",
    "cpus": "cpus = 3",
    "max-per-gpu": "max-per-gpu = 2",
    "name": 'name = "{project}"',
    "group": 'group = "mine"',
    "time-limit": 'time-limit = "1h"',
    "signal": 'signal = "USR1@10m"\ntime-limit = "1h"',
    "slice": 'slice = "1h"',
    "requeue-on": 'requeue-on = "75"',
    "max-log": 'max-log = "2G"',
    "at": 'at = "+2h"',
    "out": 'out = "{id}.txt"',
    "err": 'err = "{id}.err"',
    "nice": "nice = 3",
    "visible": 'visible = "all"',
    "hook": 'hook = "cat"',
    "slurm": 'slurm = "--qos x"',
    "metric": 'metric = ["loss=final loss (.*)"]',
    "metrics-from": 'metrics-from = "runs/{id}"',
}


def test_every_option_that_can_be_taken_away_is_among_those_tried_here() -> None:
    assert {option.name for option in JOB_OPTIONS if option.cleared} == set(CLEARED)


@pytest.mark.parametrize("name", CLEARED)
def test_none_undoes_a_value_of_the_file_in_the_command_in_python_and_in_a_cell(
    reused: StokerHome, project: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ("id", "submitted_at_ms", "queued_at_ms", "log", "err_log")

    def shown(job_id: int) -> dict[str, Any]:
        return {key: value for key, value in reused.job(job_id).items() if key not in own}

    (project / "stoker.toml").write_text(CLEARED[name].partition("\n")[2])
    plain = shown(reused.add("--", "true x"))
    (project / "stoker.toml").write_text(CLEARED[name])
    assert shown(reused.add(f"--{name}", "none", "--", "true x")) == plain
    monkeypatch.chdir(project)
    with Library(home=reused.home.root) as library:
        options: dict[str, Any] = {name.replace("-", "_"): "none"}
        assert shown(library.add("true x", **options)) == plain
    (project / "jobs.csv").write_text(f"command,{name}\ntrue x,none\n")
    reused.stoker("batch", "--no-wait", "jobs.csv")
    of_row = shown(max(reused.jobs()))
    assert {**of_row, "group": plain["group"]} == plain
    assert of_row["group"].startswith("jobs-"), "a batch has its own"


def test_none_takes_back_an_option_of_the_command_for_one_row(
    reused: StokerHome, project: Path
) -> None:
    (project / "stoker.toml").write_text('time-limit = "none"\nname = "none"\n')
    (project / "jobs.csv").write_text("command,time-limit\ntrue x,none\ntrue x,\n")
    reused.stoker("batch", "--no-wait", "--time-limit", "2h", "--group", "none", "jobs.csv")
    found = [reused.job(reused.nth(number)) for number in (1, 2)]
    assert [job["time_limit_ms"] for job in found] == [None, 7_200_000]
    assert found[0]["group"].startswith("jobs-") and found[0]["name"] is None


def test_a_line_of_a_feed_has_not_what_none_was_said_of(reused: StokerHome, project: Path) -> None:
    reused.call("resume")
    (project / "lines").write_text("true\n")
    reused.stoker("feed", "--mem", "none", "--group", "none", "lines")
    job = reused.job(reused.first_id)
    assert job["need"]["mem_mib"] is None and job["group"].startswith("feed-lines")


def test_a_flag_is_either_on_or_off(reused: StokerHome, project: Path) -> None:
    ran = reused.cli("add", "--freeze", "--no-freeze", "--", "true", "x")
    assert ran.code == 2 and "--freeze and --no-freeze exclude each other" in ran.err


def test_what_a_front_end_can_not_have_is_left_out_there(
    reused: StokerHome, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "stoker.toml").write_text('freeze = true\nmax-log = "1G"\n')
    reused.call("resume")
    ran = reused.cli("run", "--gpus", "0", "--", "true")
    assert ran.code == 0, ran.err
    out = reused.add("--out", "x.txt", "--gpus", "0", "--", "true", "x")
    assert set(reused.job(out)["options"]) == {"freeze"}
    program = "import stoker\nprint(stoker.submit(len, 'abc', gpus=0).result())\n"
    made = subprocess.run(
        [sys.executable, "-c", program], cwd=project, env=reused.env, capture_output=True, text=True
    )
    assert made.stdout == "3\n", made.stderr


def test_a_terminal_shows_what_its_job_prints_and_runs_it_once_whatever_the_file_says(
    reused: StokerHome, project: Path
) -> None:
    (project / "stoker.toml").write_text(
        'out = "out-{id}.txt"\nerr = "err-{id}.txt"\noverwrite = true\nretries = 3\n'
        'slice = "1h"\nrequeue-on = "75"\n'
        "freeze = true\ngpus = 0\n"
    )
    reused.call("resume")
    ran = reused.cli("run", "--", "sh", "-c", "echo seen; echo told >&2; exit 4")
    assert (ran.code, ran.out, ran.err.splitlines()[-1]) == (4, "seen\n", "told")
    ran = reused.cli("shell", stdin=b"pwd; exit 4\n")
    assert (ran.code, ran.out.strip()) == (4, str(project)), ran
    (project / "stoker.toml").write_text("on-cluster = true\ngpus = 0\n")
    assert reused.cli("run", "--", "echo", "here").out == "here\n"
    ran = reused.cli("run", "--out", "mine.txt", "--", "echo", "kept")
    assert (ran.code, ran.out, (project / "mine.txt").read_text()) == (0, "", "kept\n")


def test_a_setting_that_is_misspelt_is_answered_with_the_nearest(stoker: StokerHome) -> None:
    ran = stoker.cli("config", "set", "gpu", "1")
    assert (ran.code != 0, ran.out) == (True, "")
    assert ran.err == "stoker: there is no setting 'gpu'; did you mean gpus?\n"
