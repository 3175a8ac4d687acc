"""What `add`, `run` and `edit` make of their options: the request on the wire."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.api.messages import JobRequest, Submit
from stoker.cli.jobspec import MAY_CONTRADICT
from stoker.errors import UsageError
from stoker.machine import process_start
from stoker.moments import moment_ms
from stoker.submission.rules import Said, check_giving_way, check_limits, check_need, share_of_many
from unit.cli_run import process, stoker
from unit.scripted_daemon import GONE, Script, ScriptedDaemon, job


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    work = tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("STOKER_HOME", str(home))
    monkeypatch.chdir(work)
    return home


def submitted(
    capsys: pytest.CaptureFixture[str], home: Path, *words: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole submission, and its one job; checked against the daemon's own message types."""
    newest = {"jobs": [job(3), job(5), job(6)]}
    with ScriptedDaemon(home, {"submit": {"ids": [7]}, "list": newest}) as daemon:
        ran = stoker(capsys, "add", *words)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "7\n"
    [request] = daemon.sent("submit")
    msgspec.convert({"op": "submit", **request}, Submit)
    [fields] = request["jobs"]
    return request, fields


def test_add_prints_the_id_and_nothing_else(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    _, fields = submitted(capsys, home, "--", "true", "x")
    assert fields == {"argv": ["true", "x"]}


def test_one_word_is_for_the_shell_and_several_are_run_as_they_are(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    assert submitted(capsys, home, "--", "cd x && y | z")[1] == {"shell": "cd x && y | z"}
    assert submitted(capsys, home, "--", "true")[1] == {"shell": "true"}
    assert submitted(capsys, home, "--", "true", "a b", "")[1] == {"argv": ["true", "a b", ""]}


def test_without_two_dashes_the_command_begins_at_the_first_word_that_is_no_option(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    fields = submitted(capsys, home, "--gpus", "2", "--exclusive", "true", "x.py", "--lr", "0.1")[1]
    assert fields == {"gpus": 2, "exclusive": True, "argv": ["true", "x.py", "--lr", "0.1"]}
    assert submitted(capsys, home, "cd x && y")[1] == {"shell": "cd x && y"}
    assert submitted(capsys, home, "true", "-h")[1] == {"argv": ["true", "-h"]}


def test_an_option_that_a_command_may_have_taken_from_stoker_is_told(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    with ScriptedDaemon(home, {"submit": {"ids": [7]}}) as daemon:
        ran = stoker(capsys, "add", "true", "x.py", "--gpus", "2", "--mem=8G", "--lr", "1")
    assert (ran.code, ran.out) == (0, "7\n")
    assert "--gpus, --mem after 'true' are options of the command, not of Stoker" in ran.err
    [request] = daemon.sent("submit")
    assert request["jobs"] == [{"argv": ["true", "x.py", "--gpus", "2", "--mem=8G", "--lr", "1"]}]
    assert submitted(capsys, home, "--", "true", "--gpus", "2")[1]["argv"][1] == "--gpus"


def test_every_option_reaches_the_daemon(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    work = os.getcwd()
    _, fields = submitted(
        capsys, home,
        "--gpus", "2", "--mem", "1.5G", "--exclusive", "--on", "0-3", "--prefer", "3,2",
        "--cpus", "4", "--max-per-gpu", "3", "--mem-margin", "15%", "--kind", "big nets",
        "--priority", "-5", "--name", "big",
        "--group", "sweep", "--after", "3-5,last",
        "--after-any", "9", "--after-pid", str(os.getpid()),
        "--time-limit", "2h", "--grace", "0", "--signal", "SIGUSR1@2m",
        "--retries", "3", "--requeue-on", "75,76", "--slice", "1h", "--keep-place",
        "--stuck-after", "off", "--requeue", "--at", "2099-12-01T08:00Z", "--cwd", work,
        "--env", "A=1", "--env", "B=x=y", "--mps", "--thread_percentage", "30%",
        "--out", "out.txt", "--err", "/tmp/err.txt", "--gpu-arg", "--hold", "--nice", "5",
        "--visible", "uuid", "--keep-children", "--append", "--env-all", "--notify",
        "--hook", "mail me", "--metric", "a=b;(.*)", "--metric", "c=(d)",
        "--metrics-from", "r/{id}",
        "--on-cluster", "--slurm", "--qos=high -p 'a b'", "--", "true", "x",
    )  # fmt: skip
    assert fields == {
        "gpus": 2, "mem_mib": 1536, "exclusive": True, "on": ["0", "1", "2", "3"],
        "prefer": ["3", "2"], "cpus": 4, "max_per_gpu": 3, "priority": -5,
        "margin": [15, 512], "kind": "big nets",
        "name": "big", "group": "sweep",
        "after": ["3", "5", "6"], "after_any": ["9"],
        "after_pid": [f"{os.getpid()}@{process_start(os.getpid())}"],
        "time_limit_ms": 7_200_000, "grace_ms": 0,
        "signal": "USR1", "signal_before_ms": 120_000, "retries": 3,
        "requeue_on": [75, 76], "slice_ms": 3_600_000, "keep_place": True, "stuck_after": 0,
        "requeue": True,
        "not_before_ms": moment_ms("2099-12-01T08:00Z", 0), "cwd": work,
        "env": {"A": "1", "B": "x=y"}, "out": f"{work}/out.txt", "err": "/tmp/err.txt",
        "gpu_arg": True, "hold": True, "mps": True, "thread_percentage": 30, "argv": ["true", "x"],
        "nice": 5, "visible": "uuid", "keep_children": True, "append": True, "executor": "slurm",
        "env_all": True, "notify": True, "hook": "mail me",
        "metric": ["a=b;(.*)", "c=(d)"], "metrics_from": "r/{id}",
        "slurm": ["--qos=high", "-p", "a b"],
    }  # fmt: skip
    # For the cluster no code is frozen, and no log is cut: tests/e2e/test_freeze.py, test_disk.py.
    unused = {"overwrite", "shell", "share", "mem", "freeze", "max_log_mib"}
    unused |= {"params", "point", "repeat"}  # those of sweeps
    unused |= {"preemptible", "yields", "urgent"}  # not on a cluster: e2e/test_giving_way.py
    assert set(fields) == {field.name for field in msgspec.structs.fields(JobRequest)} - unused


def test_memory_may_be_left_to_what_is_learned_or_be_all_of_it(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    for word in ("auto", "whole"):
        fields = submitted(capsys, home, "--mem", word, "--", "true", "x")[1]
        assert fields == {"argv": ["true", "x"], "mem": word}
    margin = submitted(capsys, home, "--mem-margin", "2G", "--", "true", "x")[1]["margin"]
    assert margin == [0, 2048]


def test_a_part_of_a_gpu_is_a_share(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert submitted(capsys, home, "--gpus", "0.5", "--", "true", "x")[1]["share"] == 0.5
    assert submitted(capsys, home, "--gpus", "0", "--", "true", "x")[1]["gpus"] == 0


def test_so_many_jobs_on_a_gpu_share_it_equally_unless_memory_says_otherwise(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    by_count = submitted(capsys, home, "--max-per-gpu", "3", "--", "true")[1]
    assert by_count == {"shell": "true", "max_per_gpu": 3}, "what that means, the daemon says"
    assert share_of_many(Said(by_count)) == 0.333
    by_memory = submitted(capsys, home, "--max-per-gpu", "3", "--mem", "1G", "--", "true")[1]
    assert share_of_many(Said(by_memory)) is None
    alone = submitted(capsys, home, "--max-per-gpu", "1", "--", "true")[1]
    assert share_of_many(Said(alone)) is None


def test_the_environment_and_directory_of_now_are_the_jobs(
    capsys: pytest.CaptureFixture[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOMETHING", "größer")
    request, _ = submitted(capsys, home, "--", "true", "x")
    assert request["cwd"] == os.getcwd()
    assert request["env"]["SOMETHING"] == "größer"
    assert request["env"] == dict(os.environ)
    assert request["user"]


def test_a_directory_for_the_job_also_settles_where_its_files_are(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    Path("sub").mkdir()
    request, fields = submitted(
        capsys, home, "--cwd", "sub", "--out", "../out.txt", "--", "true", "x"
    )
    here = os.getcwd()
    assert request["cwd"] == fields["cwd"] == f"{here}/sub"
    assert fields["out"] == f"{here}/out.txt"


def test_a_relative_command_is_sought_where_the_job_will_run(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    script = Path("sub/train.sh")
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    submitted(capsys, home, "--cwd", "sub", "--", "./train.sh", "x")
    assert "was not found" in stoker(capsys, "add", "--", "./train.sh", "x").err
    submitted(capsys, home, "--env", f"PATH={script.parent.absolute()}", "--", "train.sh", "x")


def test_a_file_that_is_not_executable_is_refused_with_how_to_mend_it(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    Path("train.py").write_text("")
    ran = stoker(capsys, "add", "--", "./train.py", "x")
    assert (ran.code, ran.err) == (
        2,
        "stoker: ./train.py is not executable; run: chmod +x ./train.py\n",
    )
    assert "write ./train.py" in stoker(capsys, "add", "--", "train.py", "x").err


def test_a_directory_that_was_removed_under_us_is_refused(
    capsys: pytest.CaptureFixture[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Path("gone").absolute()
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    ran = stoker(capsys, "add", "--", "true", "x")
    assert ran.code == 2
    assert "no longer exists" in ran.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_output_file_that_can_not_be_written_is_refused(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    Path("locked").mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    ran = stoker(capsys, "add", "--out", "locked/x", "--", "true", "x")
    assert ran.code == 2
    assert "can't be written" in ran.err


def test_variables_that_are_not_utf8_are_left_out_and_named(home: Path) -> None:
    script: Script = {"submit": {"ids": [7]}}
    with ScriptedDaemon(home, script) as daemon:
        # The child's environment is given as bytes that no text encodes.
        ran = process(home, "add", "--", "true", "x", BROKEN="caf\udce9", FINE="café")
    assert (ran.code, ran.out) == (0, "7\n")
    assert ran.err.count("\n") == 1
    assert "BROKEN" in ran.err
    env = daemon.sent("submit")[0]["env"]
    assert "BROKEN" not in env
    assert env["FINE"] == "café"


def test_a_relative_time_counts_from_now(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    before_ms = time.time_ns() // 1_000_000
    _, fields = submitted(capsys, home, "--at", "+2h", "--", "true", "x")
    assert 0 <= fields["not_before_ms"] - before_ms - 7_200_000 < 60_000


def test_add_speaks_json_too(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    with ScriptedDaemon(home, {"submit": {"ids": [7]}}):
        ran = stoker(capsys, "add", "--json", "--", "true", "x")
    assert ran.out == '{"schema": 1, "ids": [7]}\n'


def test_a_submission_that_was_cut_off_is_repeated_and_known_by_its_token(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    cuts = iter([GONE, GONE, {"ids": [7]}])
    with ScriptedDaemon(home, {"submit": lambda request: next(cuts)}) as daemon:
        ran = stoker(capsys, "add", "--", "true", "x")
    assert (ran.code, ran.out) == (0, "7\n")
    tokens = {request["token"] for request in daemon.sent("submit")}
    assert len(daemon.sent("submit")) == 3
    assert len(tokens) == 1
    with ScriptedDaemon(home, {"submit": {"ids": [8]}}) as daemon:
        stoker(capsys, "add", "--", "true", "x")
    assert daemon.sent("submit")[0]["token"] not in tokens


# --- edit ---


def edited(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> dict[str, Any]:
    script: Script = {"edit": {"ids": [7]}, "show": {"jobs": [job(7, "waiting", cwd=os.getcwd())]}}
    with ScriptedDaemon(home, script) as daemon:
        ran = stoker(capsys, "edit", "7", *words)
    assert ran.code == 0, ran.err
    [request] = daemon.sent("edit")
    assert request["select"] == {"ids": ["7"]}
    changes: dict[str, Any] = request["changes"]
    return changes


def test_edit_sends_only_what_changes(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert edited(capsys, home, "--priority", "-1") == {"priority": -1}
    assert edited(capsys, home, "--name", "new", "--time-limit", "1h") == {
        "name": "new",
        "time_limit_ms": 3_600_000,
    }


def test_edit_replaces_one_kind_of_command_or_need_by_the_other(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    assert edited(capsys, home, "--", "a && b") == {"shell": "a && b", "argv": []}
    assert edited(capsys, home, "--", "true", "b") == {"argv": ["true", "b"], "shell": None}
    assert edited(capsys, home, "--gpus", "0.5") == {"share": 0.5, "gpus": None}
    assert edited(capsys, home, "--gpus", "2") == {"gpus": 2, "share": None}


def test_edit_takes_away_what_is_none(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    words = ["--mem", "none", "--on", "none", "--time-limit", "none",
             "--signal", "none", "--at", "none", "--name", "none", "--no-exclusive"]  # fmt: skip
    assert edited(capsys, home, *words) == {
        "mem_mib": None, "mem": None, "on": [], "time_limit_ms": None, "signal": None,
        "signal_before_ms": 0, "not_before_ms": None, "name": None, "exclusive": False,
    }  # fmt: skip


def test_edit_settles_relative_files_in_the_jobs_own_directory(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    assert edited(capsys, home, "--out", "new.txt") == {"out": f"{os.getcwd()}/new.txt"}
    assert edited(capsys, home, "--out", "none") == {"out": None}


@pytest.mark.parametrize(
    ("said", "option"),
    [
        ({"mem_mib": 1}, "--mem"),
        ({"mem": "auto"}, "--mem"),
        ({"on": ["0"]}, "--on"),
        ({"prefer": ["0"]}, "--prefer"),
        ({"exclusive": True}, "--exclusive"),
    ],
)
def test_what_is_said_of_gpus_is_refused_for_a_job_without_one(
    said: dict[str, Any], option: str
) -> None:
    check_need(Said({**said, "gpus": 1}))
    with pytest.raises(UsageError, match=f"{option} makes no sense"):
        check_need(Said({**said, "gpus": 0}))


def test_the_rules_are_asked_about_every_field_that_they_look_at() -> None:
    looked_at: set[str] = set()

    class Watched(dict[str, Any]):
        def get(self, name: str, _: Any = None) -> Any:
            looked_at.add(name)
            return super().get(name)

    for said in ({"gpus": 0}, {"share": 0.5}, {"mem": "auto"}):
        check_need(Said(Watched(said)))
    check_limits(Said(Watched(signal="USR1", signal_before_ms=1, time_limit_ms=2)))
    check_giving_way(Said(Watched(preemptible=True)))
    assert looked_at == MAY_CONTRADICT


def test_a_signal_must_come_after_the_start_and_not_with_it() -> None:
    check_limits(Said({"signal": "USR1", "signal_before_ms": 59_999, "time_limit_ms": 60_000}))
    with pytest.raises(UsageError, match="before the job starts"):
        check_limits(Said({"signal": "USR1", "signal_before_ms": 60_000, "time_limit_ms": 60_000}))
