"""Each verb: what it asks of the daemon, what it prints where, and its exit code."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.api.messages import AnyRequest
from stoker.cli.sweeping import results as sweep_results
from stoker.machine import process_start
from stoker.submission.surroundings import user_name
from unit.cli_run import Ran, stoker
from unit.scripted_daemon import GONE, Script, ScriptedDaemon, job

GPUS: list[dict[str, Any]] = [
    {"id": "0", "memory_mib": 24576, "reserved_mib": 8192, "share_used": 0.33, "state": "shared",
     "jobs": [12], "declared": True},
    {"id": "1", "memory_mib": None, "reserved_mib": 0, "share_used": 0.0, "state": "free",
     "jobs": [], "declared": True},
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    return tmp_path


class Desk:
    """A command line and the daemon that it talks to."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._home = home
        self._capsys = capsys
        self.requests: list[dict[str, Any]] = []

    def stoker(self, script: Script, *words: str) -> Ran:
        with ScriptedDaemon(self._home, script) as daemon:
            ran = stoker(self._capsys, *words)
        self.requests = daemon.requests
        for request in self.requests:
            msgspec.convert(request, AnyRequest)  # The real daemon would take it.
        return ran

    def asked(self) -> dict[str, Any]:
        [request] = self.requests
        return request


@pytest.fixture
def desk(home: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(home, capsys)


def error(code: str, message: str, hint: str = "") -> dict[str, Any]:
    return {"ok": False, "error": {"code": code, "message": message, "hint": hint}}


# --- which jobs ---


@pytest.mark.parametrize(
    ("words", "select"),
    [
        (["7"], {"ids": ["7"]}),
        (["3-9", "last"], {"ids": ["3-9", "last"]}),
        (["3,5"], {"ids": ["3", "5"]}),
        (["--name", "a", "--name", "run-*"], {"names": ["a", "run-*"]}),
        (["7", "--group", "g"], {"ids": ["7"], "group": "g"}),
        (["--all"], {"all": True}),
        (
            ["--group", "g", "--state", "failed,lost", "--state", "skipped"],
            {"group": "g", "states": ["failed", "lost", "skipped"]},
        ),
        (["--state", "lost"], {"all": True, "states": ["lost"]}),
    ],
)
@pytest.mark.parametrize(
    ("verb", "op"),
    [("cancel", "cancel"), ("retry", "retry"), ("hold", "hold"), ("release", "release"),
     ("rm", "remove")],
)  # fmt: skip
def test_orders_name_their_jobs_by_id_range_last_name_group_or_all(
    desk: Desk, verb: str, op: str, words: list[str], select: dict[str, Any]
) -> None:
    ran = desk.stoker({op: {"ids": [7, 8, 9, 12]}}, verb, *words)
    assert desk.asked() == {"op": op, "select": select}
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.endswith("jobs 7-9, 12\n")


@pytest.mark.parametrize("verb", ["cancel", "retry", "hold", "release", "rm"])
def test_orders_speak_json(desk: Desk, verb: str) -> None:
    op = "remove" if verb == "rm" else verb
    ran = desk.stoker({op: {"ids": [7]}}, verb, "7", "--json")
    assert (ran.out, ran.err) == ('{"schema": 1, "ids": [7]}\n', "")


def test_to_adopt_names_the_process_by_its_start_and_tells_the_job(desk: Desk) -> None:
    pid = os.getpid()
    answer = {"id": 12, "gpus": ["0", "1"], "process": f"{pid} (pytest)"}
    ran = desk.stoker({"adopt": answer}, "adopt", str(pid), "--on", "0,1", "--mem", "8G")
    asked = desk.asked()
    assert asked.pop("user") == user_name()
    process = f"{pid}@{process_start(pid)}"
    assert asked == {"op": "adopt", "process": process, "on": ["0", "1"], "mem_mib": 8192}
    told = f"stoker: job 12 is process {pid} (pytest) on GPUs 0, 1\n"
    assert (ran.code, ran.out, ran.err) == (0, "12\n", told)
    ran = desk.stoker({"adopt": answer}, "adopt", str(pid), "--json")
    assert json.loads(ran.out) == {"schema": 1, **answer}
    ran = desk.stoker({}, "adopt", f"{pid},{pid}")
    assert ran.code == 2 and "only one process can be adopted at a time" in ran.err


def test_to_let_an_adopted_job_go_is_asked_for(desk: Desk) -> None:
    desk.stoker({"cancel": {"ids": [7]}}, "cancel", "7", "--let-go")
    assert desk.asked() == {"op": "cancel", "select": {"ids": ["7"]}, "let_go": True}


def test_an_order_that_concerns_no_job_says_so(desk: Desk) -> None:
    ran = desk.stoker({"cancel": {"ids": []}}, "cancel", "--all")
    assert (ran.code, ran.out, ran.err) == (0, "", "nothing to do\n")


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("failed", 1), ("usage", 2), ("not_found", 3), ("unreachable", 4), ("unavailable", 1)],
)
def test_the_daemons_errors_become_one_line_and_an_exit_code(
    desk: Desk, code: str, exit_code: int
) -> None:
    refusal = error(code, "there is no\x1b[31m job 9", "see `stoker ls`")
    ran = desk.stoker({"cancel": refusal}, "cancel", "9")
    assert ran.code == exit_code
    assert ran.out == ""
    assert ran.err == "stoker: there is no\\x1b[31m job 9; see `stoker ls`\n"


def test_an_order_that_was_cut_off_is_not_given_twice(desk: Desk) -> None:
    ran = desk.stoker({"cancel": GONE}, "cancel", "9")
    assert ran.code == 4
    assert "went away" in ran.err
    assert ran.err.count("\n") == 1
    assert len(desk.requests) == 1


def test_a_question_that_was_cut_off_is_asked_again(desk: Desk) -> None:
    answers = iter([GONE, {"jobs": [job(1)], "total": 1}])
    ran = desk.stoker({"list": lambda request: next(answers)}, "ls")
    assert ran.code == 0
    assert len(desk.requests) == 2


@pytest.mark.parametrize("raw", [b"nonsense\n", b"[]\n", b"{} {}\n", b"\n", b"\xff\xfe\n"])
def test_an_answer_that_makes_no_sense_is_told_as_such(desk: Desk, raw: bytes) -> None:
    ran = desk.stoker({"gpus": {"raw": raw}}, "gpus")
    assert (ran.code, ran.err.count("\n")) == (4, 1)
    assert "can't be understood" in ran.err


def test_an_answer_in_pieces_is_put_together(desk: Desk) -> None:
    pieces = [{"raw": piece} for piece in (b'{"ok": tr', b'ue, "gpus": [', b"]}\n")]
    ran = desk.stoker({"gpus": lambda request: pieces}, "gpus", "--json")
    assert (ran.code, ran.out) == (0, '{"schema": 1, "gpus": []}\n')


def test_a_daemon_that_hangs_does_not_hang_its_clients(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.api.client.ANSWER_TIMEOUT_S", 0.05)
    ran = desk.stoker({"gpus": lambda request: []}, "gpus")
    assert (ran.code, ran.err.count("\n")) == (4, 1)
    assert "has not answered" in ran.err
    assert "daemon.log" in ran.err


def test_a_socket_that_nobody_listens_on_counts_as_no_daemon(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind("stoker.sock")
    assert stoker(capsys, "daemon", "status").code == 4


def test_a_home_that_can_not_be_used_is_told_in_one_line(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "file").touch()
    monkeypatch.setenv("STOKER_HOME", str(home / "file"))
    ran = stoker(capsys, "ls")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)


# --- ls ---


def test_ls_asks_for_what_its_filters_say(desk: Desk) -> None:
    answer = {"jobs": [], "total": 0}
    desk.stoker({"list": answer}, "ls")
    assert desk.asked() == {"op": "list", "select": {}, "all": False, "limit": 100}
    desk.stoker({"list": answer}, "ls", "--json")
    assert desk.asked() == {"op": "list", "select": {}, "all": False}, "scripts get everything"
    desk.stoker({"list": answer}, "ls", "--state", "waiting")
    assert "limit" not in desk.asked()
    desk.stoker(
        {"list": answer}, "ls", "3-9", "--state", "running,waiting", "--state", "held",
        "--group", "g", "--name", "x*", "--user", "ada", "--all", "--limit", "5",
    )  # fmt: skip
    assert desk.asked() == {
        "op": "list",
        "select": {"ids": ["3-9"], "names": ["x*"], "group": "g"},
        "states": ["running", "waiting", "held"],
        "user": "ada",
        "all": True,
        "limit": 5,
    }
    said = desk.stoker({"list": answer}, "ls", "state:failed", "lr", "3-9", "name:'a b'").err
    assert desk.asked()["select"] == {"ids": ["3-9"], "text": "state:failed lr name:'a b'"}
    assert "limit" not in desk.asked() and said == "no such jobs\n"
    for word, state in {"Waiting": "waiting", "pending": "waiting", "done": "succeeded"}.items():
        said = desk.stoker({"list": answer}, "ls", word).err
        assert said == f"no such jobs; did you mean `stoker ls state:{state}`?\n"


def test_ls_shows_jobs_in_columns_and_leaves_out_those_that_say_nothing(desk: Desk) -> None:
    jobs = [
        job(7, "running", name="big", gpus=["0", "1"], started_at_ms=1_773_144_000_000),
        job(12, "waiting", reason="needs 2 GPUs, 1 is free", need={"gpus": 2}, attempt=0),
        job(9, "failed", exit_code=3, started_at_ms=1000, ended_at_ms=246_000, attempt=2),
        job(8, "failed", reason="time limit", started_at_ms=1000, ended_at_ms=1000),
    ]
    ran = desk.stoker({"list": {"jobs": jobs, "total": 9}}, "ls")
    header, *rows = ran.out.splitlines()
    assert header.split() == ["ID", "STATE", "NAME", "GPUS", "TIME", "COMMAND", "NOTE"]
    assert rows[0].split()[:4] == ["7", "running", "big", "0,1"]
    assert "x2" in rows[1]
    assert rows[1].endswith("needs 2 GPUs, 1 is free")
    assert rows[2].split()[2:4] == ["4m", "05s"]
    assert rows[2].endswith("attempt 2: exit code 3")
    assert rows[3].endswith("time limit")
    assert len({row.index("python") for row in rows}) == 1
    assert "\x1b" not in ran.out
    assert ran.err == "and 5 more; --all or a larger --limit shows them\n"


def test_show_has_parameters_and_the_time_that_is_left(desk: Desk) -> None:
    now = time.time_ns() // 1_000_000
    runs = job(
        7, started_at_ms=now - 600_000, time_limit_ms=3_610_000, attempts=[],
        params={"lr": 0.1, "bs": 16},
    )  # fmt: skip
    page = desk.stoker({"show": {"jobs": [runs]}}, "show", "7").out
    assert "  parameters  lr=0.1, bs=16\n" in page
    assert "  ran         10m 0" in page
    assert "  time left   50m" in page
    ended = {**runs, "state": "succeeded", "ended_at_ms": now}
    assert "time left" not in desk.stoker({"show": {"jobs": [ended]}}, "show", "7").out


def test_a_job_that_was_queued_again_has_waited_since_then(desk: Desk) -> None:
    now = time.time_ns() // 1_000_000
    waits = job(7, "waiting", submitted_at_ms=now - 86_400_000, queued_at_ms=now - 5_000, attempt=1)
    again = {**waits, "attempts": []}
    script: Script = {"list": {"jobs": [waits], "total": 1}, "show": {"jobs": [again]}}
    for words in (["ls"], ["show", "7"]):
        text = desk.stoker(script, *words).out
        assert "5s" in text or "6s" in text, text
        assert "1d" not in text and "24h" not in text


def test_ls_says_in_words_that_there_is_nothing(desk: Desk) -> None:
    ran = desk.stoker({"list": {"jobs": [], "total": 0}}, "ls")
    assert (ran.code, ran.out, ran.err) == (0, "", "no jobs\n")


def test_ls_speaks_json_with_times_in_iso_8601(desk: Desk) -> None:
    jobs = [job(7, started_at_ms=1_773_144_000_123, not_before_ms=1_773_144_000_000)]
    ran = desk.stoker({"list": {"jobs": jobs, "total": 1}}, "ls", "--json")
    answer = json.loads(ran.out)
    assert answer["schema"] == 1
    [shown] = answer["jobs"]
    assert shown["submitted_at"] == "2026-03-10T12:00:00.000Z"
    assert shown["started_at"] == "2026-03-10T12:00:00.123Z"
    assert shown["ended_at"] is None
    assert shown["not_before"] == "2026-03-10T12:00:00.000Z"
    assert not any(key.endswith("_at_ms") for key in shown)
    assert {"id", "name", "state", "reason", "exit_code", "gpus", "command", "need"} <= set(shown)


def test_hostile_text_never_reaches_the_terminal(desk: Desk) -> None:
    evil = "a\x1b]0;owned\x07\nb\r\u202ec\x9b31m\udcff"
    hostile = job(7, "failed", name=evil, group=evil, command=evil, reason=evil, gpus=[evil],
                  user=evil, cwd=evil, log=evil, signal_spec=evil)  # fmt: skip
    attempts = [{"attempt": n, "state": evil, "reason": evil, "gpus": [evil], "log": evil,
                 "started_at_ms": None, "ended_at_ms": None} for n in (1, 2)]  # fmt: skip
    gpu = GPUS[0] | {"id": evil, "state": evil, "jobs": [7]}
    script: Script = {
        "list": {"jobs": [hostile], "total": 1},
        "show": {"jobs": [hostile | {"attempts": attempts}]},
        "status": {"gpus": [gpu], "jobs": [hostile], "counts": {"failed": 1}, "paused": True,
                   "paused_groups": [evil]},
        "gpus": {"gpus": [gpu]},
        "why": {"jobs": [{"id": 7, "state": evil, "text": evil, "starts_at_ms": None}]},
        "config_get": {"settings": [{"name": evil, "value": evil, "default": "", "help": evil}]},
        "config_set": {"value": evil},
        "wait": {"jobs": [hostile, hostile]},
    }  # fmt: skip
    for line in ("ls", "show 7", "", "gpus", "why 7", "config", "config get x", "config set x y",
                 "wait 7 8"):  # fmt: skip
        words = line.split()
        ran = desk.stoker(script, *words)
        assert "\\x1b]0;owned\\x07" in ran.out + ran.err
        assert all(line.isprintable() for line in (ran.out + ran.err).split("\n"))
        ran = desk.stoker(script, *words, "--json")
        assert ran.out.rstrip("\n").isprintable()


# --- show, why, the glance ---


def test_show_tells_all_about_a_job_and_its_attempts(desk: Desk) -> None:
    attempts = [
        {"attempt": 1, "state": "failed", "reason": None, "exit_code": 1, "signal": None,
         "gpus": ["0"], "started_at_ms": 1000, "ended_at_ms": 13_000, "log": "/l/1"},
        {"attempt": 2, "state": "succeeded", "reason": None, "exit_code": 0, "signal": None,
         "gpus": ["1"], "started_at_ms": 20_000, "ended_at_ms": 21_000, "log": "/l/2"},
    ]  # fmt: skip
    shown = job(7, "succeeded", name="big", exit_code=0, attempts=attempts, retries=2, log="/l/2",
                time_limit_ms=7_200_000, after=[3, 4], started_at_ms=20_000,
                ended_at_ms=21_000)  # fmt: skip
    ran = desk.stoker({"show": {"jobs": [shown]}}, "show", "7")
    asked, metrics = desk.requests
    assert asked == {"op": "show", "select": {"ids": ["7"]}}
    assert (metrics["op"], metrics["job_id"]) == ("curve", 7)
    assert ran.out.splitlines()[0] == "job 7 (big)"
    facts = {line[2:12].strip(): line[14:] for line in ran.out.splitlines()[1:]}
    assert facts["command"] == "python train.py"
    assert facts["needs"] == "1 GPU"
    assert facts["time limit"] == "2h 00m"
    assert facts["after"] == "3, 4"
    assert facts["exit code"] == "0"
    assert "1  failed     0" in ran.out
    assert "exit code 1" in ran.out


def test_show_json_has_one_job_for_one_id_and_a_list_otherwise(desk: Desk) -> None:
    script: Script = {"show": {"jobs": [job(7, attempts=[{"attempt": 1, "placed_at_ms": 0}])]}}
    one = json.loads(desk.stoker(script, "show", "7", "--json").out)
    assert one["schema"] == 1
    assert one["job"]["id"] == 7
    assert one["job"]["attempts"] == [{"attempt": 1, "placed_at": "1970-01-01T00:00:00.000Z"}]
    several = json.loads(desk.stoker(script, "show", "7-9", "--json").out)
    assert [shown["id"] for shown in several["jobs"]] == [7]


def test_why_tells_the_reason_and_when_it_will_start(desk: Desk) -> None:
    waits = {"id": 9, "state": "waiting", "reason": {"type": "NeedsGpus"}, "jobs_ahead": 2,
             "text": "needs 2 GPUs, 1 is free", "starts_at_ms": 4_102_444_800_000}  # fmt: skip
    ran = desk.stoker({"why": {"jobs": [waits]}}, "why", "9")
    begin = "job 9 is waiting: needs 2 GPUs, 1 is free; 2 jobs come before it; it should start in "
    assert ran.out.startswith(begin)
    assert json.loads(desk.stoker({"why": {"jobs": [waits]}}, "why", "9", "--json").out) == {
        "schema": 1,
        "jobs": [
            {"id": 9, "state": "waiting", "reason": {"type": "NeedsGpus"}, "jobs_ahead": 2,
             "text": "needs 2 GPUs, 1 is free", "starts_at": "2100-01-01T00:00:00.000Z"}
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("state", "text", "sentence"),
    [
        ("running", "it is running on GPU 0", "job 9: it is running on GPU 0"),
        ("failed", "exit code 1", "job 9 has failed: exit code 1"),
        ("succeeded", "it has succeeded", "job 9: it has succeeded"),
        ("cancelled", "", "job 9 was cancelled"),
        ("held", "held; release it", "job 9 is held; release it"),
        ("stopped", "stopped early at step 9", "job 9 was stopped early at step 9"),
    ],
)
def test_why_makes_sense_for_jobs_in_any_state(
    desk: Desk, state: str, text: str, sentence: str
) -> None:
    answer = {"id": 9, "state": state, "reason": None, "text": text, "starts_at_ms": None}
    assert desk.stoker({"why": {"jobs": [answer]}}, "why", "9").out == sentence + "\n"


def test_bare_stoker_shows_gpus_counts_and_jobs(desk: Desk) -> None:
    status = {
        "gpus": GPUS,
        "jobs": [job(12, name="big", gpus=["0"])],
        "counts": {"running": 1, "waiting": 4, "failed": 0},
        "paused": True,
        "paused_groups": ["sweep"],
        "cpus": {"total": 16, "used": 4},
        "daemon": {"pid": 1, "version": "0", "uptime_s": 5},
    }
    ran = desk.stoker({"status": status})
    assert desk.asked() == {"op": "status"}
    assert "8.0 of 24.0 GiB" in ran.out
    assert "12 big" in ran.out
    assert "1 running, 4 waiting; 4 of 16 CPU slots taken" in ran.out
    assert "the queue is paused" in ran.out
    assert "group sweep is paused" in ran.out
    assert desk.stoker({"status": status}, "status").out == ran.out
    answer = json.loads(desk.stoker({"status": status}, "--json").out)
    assert answer["schema"] == 1
    assert set(status) < set(answer)
    assert "ok" not in answer


def test_bare_stoker_tells_a_new_user_how_to_declare_gpus(desk: Desk) -> None:
    ran = desk.stoker({"status": {"gpus": [], "jobs": [], "counts": {}, "paused": False}})
    assert "stoker config set gpus" in ran.out


# --- the queue, GPUs, settings ---


def test_pause_and_resume_are_for_all_or_for_a_group(desk: Desk) -> None:
    desk.stoker({"pause": {}}, "pause")
    assert desk.asked() == {"op": "pause"}
    ran = desk.stoker({"resume": {}}, "resume", "--group", "g", "--json")
    assert desk.asked() == {"op": "resume", "group": "g"}
    assert json.loads(ran.out) == {"schema": 1, "group": "g", "paused": False}


@pytest.mark.parametrize(
    ("words", "op", "gpus"),
    [
        (["add", "4"], "gpu_add", ["4"]),
        (["add", "4-5:24G", "7"], "gpu_add", ["4:24G", "5:24G", "7"]),
        (["remove", "3"], "gpu_remove", ["3"]),
        (["drain", "0,2-3"], "gpu_drain", ["0", "2", "3"]),
        (["resume", "2"], "gpu_resume", ["2"]),
    ],
)
def test_gpus_are_added_removed_drained_and_resumed(
    desk: Desk, words: list[str], op: str, gpus: list[str]
) -> None:
    ran = desk.stoker({op: {}}, "gpus", *words)
    assert desk.asked() == {"op": op, "gpus": gpus}
    assert (ran.code, ran.out) == (0, "")


def test_gpus_lists_them(desk: Desk) -> None:
    ran = desk.stoker({"gpus": {"gpus": GPUS}}, "gpus")
    assert [line.split()[:2] for line in ran.out.splitlines()[1:]] == [
        ["0", "shared"],
        ["1", "free"],
    ]
    assert desk.stoker({"gpus": {"gpus": GPUS}}, "gpus", "list").out == ran.out
    ran = desk.stoker({"gpus": {"gpus": GPUS}}, "gpus", "--json")
    assert json.loads(ran.out) == {"schema": 1, "gpus": GPUS}


def test_config_lists_reads_sets_and_unsets(desk: Desk) -> None:
    setting = {"name": "gpus", "value": "0,1", "default": "", "help": "which GPUs there are"}
    ran = desk.stoker({"config_get": {"settings": [setting]}}, "config")
    assert desk.asked() == {"op": "config_get"}
    assert "which GPUs there are" in ran.out
    ran = desk.stoker({"config_get": {"settings": [setting]}}, "config", "get", "gpus")
    assert desk.asked() == {"op": "config_get", "name": "gpus"}
    assert ran.out == "0,1\n"
    ran = desk.stoker({"config_set": {"value": "0,1"}}, "config", "set", "gpus", "0-1")
    assert desk.asked() == {"op": "config_set", "name": "gpus", "value": "0-1"}
    assert (ran.out, ran.err) == ("", "gpus is 0,1\n")
    desk.stoker({"config_set": {"value": None}}, "config", "unset", "gpus")
    assert desk.asked() == {"op": "config_set", "name": "gpus", "value": None}
    ran = desk.stoker({"config_get": {"settings": [setting]}}, "config", "--json")
    assert json.loads(ran.out) == {
        "schema": 1,
        "settings": [setting],
        "project": {"file": None, "options": {}},
    }


# --- wait ---


@pytest.mark.parametrize(
    ("jobs", "code"),
    [
        ([job(7, "succeeded", exit_code=0)], 0),
        ([job(7, "failed", exit_code=3)], 3),
        ([job(7, "failed", signal=9)], 137),
        ([job(7, "failed", reason="could not start")], 1),
        ([job(7, "failed", signal=15, reason="time limit")], 143),
        ([job(7, "failed", exit_code=0, reason="time limit")], 1),
        ([job(7, "stopped", signal=15)], 0),
        ([job(7, "stopped", signal=15), job(8, "succeeded", exit_code=0)], 0),
        ([job(7, "stopped", signal=15), job(8, "failed", exit_code=3)], 1),
        ([job(7, "cancelled", signal=15)], 1),
        ([job(7, "cancelled", exit_code=3)], 1),
        ([job(7, "cancelled")], 1),
        ([job(7, "skipped")], 1),
        ([job(7, "lost")], 1),
        ([job(7, "succeeded", exit_code=0), job(8, "succeeded", exit_code=0)], 0),
        ([job(7, "succeeded", exit_code=0), job(8, "failed", exit_code=3)], 1),
    ],
)
def test_wait_gives_the_jobs_own_exit_code_or_one_for_several(
    desk: Desk, jobs: list[dict[str, Any]], code: int
) -> None:
    ran = desk.stoker({"wait": {"jobs": jobs}}, "wait", *(str(one["id"]) for one in jobs))
    assert (ran.code, ran.out) == (code, "")
    answer = desk.stoker({"wait": {"jobs": jobs}}, "wait", "7-8", "--json")
    assert answer.code == code
    assert json.loads(answer.out)["timed_out"] is False


def test_wait_gives_up_after_its_timeout(desk: Desk) -> None:
    ran = desk.stoker({"wait": lambda request: []}, "wait", "7", "--timeout", "50ms")
    assert ran.code == 124
    assert ran.err.count("\n") == 1


def test_wait_settles_which_jobs_are_meant_before_it_waits(desk: Desk) -> None:
    script: Script = {
        "list": {"jobs": [job(3), job(4), job(9)], "total": 3},
        "wait": {"jobs": [job(3, "succeeded")]},
    }
    desk.stoker(script, "wait", "--all")
    assert desk.requests[0]["states"] == ["held", "waiting", "submitted", "running", "stopping"]
    assert desk.requests[1]["select"] == {"ids": ["3-4", "9"]}
    desk.stoker(script, "wait", "last")
    assert desk.requests[0]["select"] == {"ids": ["last"]}
    assert desk.requests[1]["select"] == {"ids": ["3-4", "9"]}


def test_wait_means_all_that_are_named_in_any_way(desk: Desk) -> None:
    script: Script = {"show": {"jobs": [job(3), job(7)]}, "wait": {"jobs": [job(3, "succeeded")]}}
    desk.stoker(script, "wait", "7", "--name", "x")
    assert desk.requests[0]["select"] == {"ids": ["7"], "names": ["x"]}
    assert desk.requests[1]["select"] == {"ids": ["3", "7"]}


def test_wait_for_all_of_no_jobs_ends_at_once(desk: Desk) -> None:
    assert desk.stoker({"list": {"jobs": [], "total": 0}}, "wait", "--all").code == 0


def test_wait_outlives_a_daemon_that_goes_away_and_comes_back(desk: Desk) -> None:
    answers = iter(
        [GONE, error("unavailable", "stopping"), {"jobs": [job(7, "failed", exit_code=5)]}]
    )
    ran = desk.stoker({"wait": lambda request: next(answers)}, "wait", "7")
    assert ran.code == 5
    assert [request["op"] for request in desk.requests] == ["wait"] * 3


def test_wait_for_a_job_that_does_not_exist_is_exit_code_3(desk: Desk) -> None:
    ran = desk.stoker({"wait": error("not_found", "there is no job 7")}, "wait", "7")
    assert ran.code == 3


# --- the daemon ---


def test_daemon_status_tells_of_itself_and_never_starts_it(
    desk: Desk, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stoker(capsys, "daemon", "status") == Ran(4, "not running\n", "")
    answer = json.loads(stoker(capsys, "daemon", "status", "--json").out)
    assert answer["running"] is False
    assert answer["pid"] is None
    assert answer["socket"] == f"{home}/stoker.sock"
    hello = {"pid": 4711, "version": "0.1.0", "api": 1, "socket": "/s", "home": "/h",
             "started_at_ms": 0, "uptime_s": 61.5}  # fmt: skip
    ran = desk.stoker({"hello": hello}, "daemon", "status", "--json")
    answer = json.loads(ran.out)
    assert ran.code == 0
    assert answer["schema"] == 1
    assert answer["running"] is True
    assert (answer["pid"], answer["version"], answer["socket"]) == (4711, "0.1.0", "/s")
    assert answer["uptime_s"] == 61.5
    assert "process 4711" in desk.stoker({"hello": hello}, "daemon", "status").out


def test_daemon_stop_without_a_daemon_is_no_failure(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = stoker(capsys, "daemon", "stop")
    assert (ran.code, ran.out, ran.err) == (0, "", "the daemon is not running\n")


def test_a_home_with_a_long_path_is_reached_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / ("d" * 100) / ("e" * 100)
    home.mkdir(parents=True)
    monkeypatch.setenv("STOKER_HOME", str(home))
    with ScriptedDaemon(home, {"gpus": {"gpus": []}}):
        assert stoker(capsys, "gpus").code == 0


def test_a_search_that_has_only_begun_has_no_points_and_no_states() -> None:
    assert sweep_results._summary({"total": 0, "counts": {}}) == "0 points"
    assert sweep_results._summary({"total": 1, "counts": {"held": 1}}) == "1 point: 1 held"
