"""`stoker batch` with a real daemon: files of jobs queued, all or none, and seen through."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from stoker.daemon.requirements import RANGE_FROM
from stoker_home import StokerHome, lines_of
from waiting import PATIENCE_S, eventually


def written(stoker: StokerHome, name: str, text: str | bytes) -> Path:
    path = stoker.work / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def group_of(stoker: StokerHome) -> str:
    (group,) = {job["group"] for job in stoker.jobs().values()}
    return str(group)


# ---------------------------------------------------------------------- what is queued


def test_a_csv_of_commands_and_options_runs_to_the_end(reused: StokerHome) -> None:
    written(
        reused,
        "jobs.csv",
        "name,gpus,priority,out,env,command\n"
        'one,2,5,one.txt,A=1;B=x y,"echo $A-$B-$CUDA_VISIBLE_DEVICES"\n'
        "two,0,,two.txt,,echo none-$CUDA_VISIBLE_DEVICES\n",
    )
    ran = reused.cli("batch", "jobs.csv")
    assert ran.code == 0, ran
    assert ran.out == ""
    assert "2 of 2 jobs succeeded" in ran.err
    assert (reused.work / "one.txt").read_text() == "1-x y-0,1\n"
    assert (reused.work / "two.txt").read_text() == "none-\n"
    one, two = reused.jobs().values()
    assert (one["name"], one["priority"], one["need"]["gpus"]) == ("one", 5, 2)
    assert (two["name"], two["need"]["gpus"]) == ("two", 0)
    assert one["group"] == two["group"]


def test_options_of_the_command_line_are_for_all_rows_that_say_nothing_else(
    reused: StokerHome,
) -> None:
    written(reused, "jobs.csv", "command,gpus,env\ntrue,2,A=2\ntrue,,\n")
    ran = reused.cli(
        "batch", "jobs.csv", "--no-wait", "--gpus", "3", "--env", "A=1", "--priority", "4",
        "--group", "mine", "--retries", "2", "--hold",
    )  # fmt: skip
    assert ran.code == 0, ran
    first, second = reused.jobs().values()
    assert [first["need"]["gpus"], second["need"]["gpus"]] == [2, 3]
    assert {job["group"] for job in (first, second)} == {"mine"}
    assert {(job["priority"], job["retries"], job["state"]) for job in (first, second)} == {
        (4, 2, "held")
    }


def test_a_template_makes_a_job_of_each_row_and_no_cell_becomes_shell(reused: StokerHome) -> None:
    written(reused, "runs.csv", "lr,note\n0.1,plain\n0.01,$(touch hacked); 'x\"\n")
    template = 'echo {lr} {note} "<{note}>" >> seen.txt'
    ran = reused.cli("batch", "runs.csv", "--template", template, "--on", "0")
    assert ran.code == 0, ran
    hostile = "$(touch hacked); 'x\""
    assert (reused.work / "seen.txt").read_text() == (
        f"0.1 plain <plain>\n0.01 {hostile} <{hostile}>\n"
    )
    assert not (reused.work / "hacked").exists()
    assert [job["params"] for job in reused.jobs().values()] == [
        {"lr": "0.1", "note": "plain"},
        {"lr": "0.01", "note": hostile},
    ]


def test_yaml_jobs_wait_for_each_other_by_name_in_any_order(reused: StokerHome) -> None:
    written(
        reused,
        "jobs.yaml",
        """\
- {name: report, after: [train, test], command: echo report >> seen.txt}
- {name: train, after: prepare, command: echo train >> seen.txt}
- {name: prepare, gpus: 0, command: echo prepare >> seen.txt}
- {name: broken, command: exit 3}
- {name: test, after-any: "broken, train", command: echo test >> seen.txt}
- {name: never, after: broken, command: echo never >> seen.txt}
""",
    )
    ran = reused.cli("batch", "jobs.yaml", "--json")
    assert ran.code == 1
    assert lines_of(reused.work / "seen.txt") == ["prepare", "train", "test", "report"]
    told = json.loads(ran.out)
    assert told["schema"] == 1
    assert {job["line"]: job["state"] for job in told["jobs"]} == {
        1: "succeeded", 2: "succeeded", 3: "succeeded", 4: "failed", 5: "succeeded", 6: "skipped",
    }  # fmt: skip
    assert {job["line"]: job["exit_code"] for job in told["jobs"]}[4] == 3


def test_a_file_may_wait_for_jobs_that_are_queued_already(reused: StokerHome) -> None:
    earlier = reused.submit("true", hold=True)
    written(reused, "jobs.jsonl", '{"command": "true", "after": "last"}\n')
    (job_id,) = map(int, reused.stoker("batch", "jobs.jsonl", "--no-wait").split())
    assert reused.job(job_id)["after"] == [earlier]
    reused.call("release", select={"ids": [str(earlier)]})
    assert reused.until_final(job_id)[0]["state"] == "succeeded"


def test_json_lines_take_words_that_no_shell_touches(reused: StokerHome) -> None:
    words = ["sh", "-c", 'printf "%s" "$1" > word.txt', "sh", "a; b $HOME 'é"]
    written(reused, "jobs.jsonl", json.dumps({"command": words, "name": "w"}) + "\n")
    assert reused.cli("batch", "jobs.jsonl").code == 0
    assert (reused.work / "word.txt").read_text() == words[-1]


def test_jobs_wait_for_the_batch_before_theirs_in_any_kind_of_file(reused: StokerHome) -> None:
    rows = "".join(f"echo {n} >> seen.txt,{9 - n}\n" for n in range(6))
    written(reused, "jobs.csv", "command,priority\n" + rows)
    ran = reused.cli("batch", "jobs.csv", "--num", "2", "--on", "0")
    assert ran.code == 0, ran
    assert lines_of(reused.work / "seen.txt") == ["1", "0", "3", "2", "5", "4"]


def test_a_batch_of_any_size_waits_for_all_of_the_one_before(reused: StokerHome) -> None:
    wide = RANGE_FROM + 19
    rows = "".join(f"echo {n} >> seen.txt\n" for n in range(3 * wide))
    written(reused, "jobs.csv", "command\n" + rows)
    ran = reused.cli("batch", "jobs.csv", "--num", str(wide), "--gpus", "0", "--cpus", "0")
    assert ran.code == 0, ran
    seen = [int(line) for line in lines_of(reused.work / "seen.txt")]
    assert sorted(seen) == list(range(3 * wide))
    assert [n // wide for n in seen] == [0] * wide + [1] * wide + [2] * wide


def test_batches_of_thousands_outlive_the_daemon(reused: StokerHome) -> None:
    reused.call("pause")
    written(reused, "jobs.csv", "command\n" + "true\n" * 6_000)
    ran = reused.cli("batch", "jobs.csv", "--num", "2500", "--no-wait", "--json")
    assert ran.code == 0, ran
    ids = json.loads(ran.out)["ids"]
    first, second, third = ids[0], ids[2_500], ids[5_000]
    assert len(ids) == 6_000
    assert reused.job(third)["after_any"] == [f"{second}-{third - 1}"]
    reused.kill_daemon()
    reused.start()
    reused.call("cancel", select={"ids": [f"{first + 1}-{second - 1}"]})
    assert f"waits for job {first} to end" in reused.stoker("why", str(second))
    reused.call("cancel", select={"ids": [str(first)]})
    assert "paused" in reused.stoker("why", str(second))
    assert f"waits for jobs {second}, {second + 1}, " in reused.stoker("why", str(third))
    reused.call("cancel", select={"all": True})


def test_ten_thousand_rows_are_queued_with_a_bom_and_windows_line_ends(
    reused: StokerHome,
) -> None:
    rows = "".join(f'"echo {n}, ""x""\r\n",job {n}\r\n\r\n' for n in range(10_000))
    written(reused, "jobs.csv", ("\ufeffcommand,name\r\n" + rows).encode())
    ran = reused.cli("batch", "jobs.csv", "--no-wait", "--hold", "--json")
    assert ran.code == 0, ran
    ids = json.loads(ran.out)["ids"]
    assert len(ids) == 10_000
    assert reused.job(ids[-1])["shell"] == 'echo 9999, "x"\r\n'
    assert reused.job(ids[-1])["name"] == "job 9999"


# ---------------------------------------------------------------------- what is refused


BAD_FILES: list[tuple[str, str | bytes, str]] = [
    ("j.csv", "command,gpus\ntrue,1\ntrue,many\n", "j.csv, line 3: gpus: 'many'"),
    ("j.csv", "command,gpus\ntrue,1\ntrue,99\n", "j.csv, line 3: the job needs 99 GPUs"),
    ("j.csv", "command,mem\ntrue,\ntrue,8G\n", "j.csv, line 3: how much memory"),
    ("j.csv", "command,mem\ntrue,10\n", "j.csv, line 2: mem: '10' has no unit; 10G or 10M?"),
    ("j.yaml", "- command: 'true'\n  time_limit: 2\n",
     "j.yaml, line 1: time-limit: '2' has no unit; 2m or 2h?"),
    ("j.csv", "command,cwd\ntrue,/nowhere\n", "j.csv, line 2: there is no directory"),
    ("j.csv", "command,out\ntrue,no/such/f\n", "j.csv, line 2: --out: there is no directory"),
    ("j.csv", "command,env\ntrue,x\n", "j.csv, line 2: env: 'x' does not set"),
    ("j.csv", "command,exclusive\ntrue,maybe\n", "j.csv, line 2: exclusive: 'maybe'"),
    ("j.csv", "command,signal\ntrue,USR1@2m\n", "j.csv, line 2: --signal needs a time limit"),
    ("j.csv", "command,name\ntrue,\"a\nb\"\n", "j.csv, line 2: name: the name"),
    ("j.csv", "command,after\ntrue,9999999\n", "j.csv, line 2: there is no job 9999999"),
    ("j.csv", "command,after\ntrue,x\n", "j.csv, line 2: after: there is no job named 'x'"),
    ("j.csv", "command\n", "j.csv has no jobs in it"),
    ("j.csv", "", "j.csv is empty"),
    ("j.csv", b"command\n\xff\n", "j.csv, line 2: not valid UTF-8"),
    ("j.yaml", "- command: [no-such-program, x]\n", "j.yaml, line 1: the command"),
    ("j.yaml", "- command: 'true'\n  gpsu: 1\n",
     "j.yaml, line 1: a job has no option 'gpsu'; did you mean gpus?"),
    ("j.yaml", "- {name: a, after: b, command: x}\n- {name: b, after: a, command: x}\n",
     "j.yaml, line 1: the job waits for itself"),
    ("j.yaml", "- {name: a, command: x}\n- {name: b, after: a, gpus: 50, command: x}\n",
     "j.yaml, line 2: the job needs 50 GPUs"),
    ("j.jsonl", '{"command": "a\\u0000b"}\n', "j.jsonl, line 1: the command has a NUL"),
    ("j.txt", "true\n", "j.txt is neither"),
]  # fmt: skip
BAD_WORDS = [
    (),
    ("missing.csv",),
    ("--csv", "a.csv", "b.csv"),
    ("jobs.csv", "--num", "0"),
    ("jobs.csv", "--num", "some"),
    ("jobs.csv", "--header", "first"),
    ("jobs.csv", "--header", "-1"),
    ("jobs.csv", "--thread_percentage", "101"),
    ("jobs.csv", "--template", "train {x}"),
    ("jobs.jsonl", "--template", "train {x}"),
    ("jobs.csv", "--gpus", "many"),
]


def test_a_bad_file_is_refused_in_one_line_and_nothing_is_queued(reused: StokerHome) -> None:
    for name, text, said in BAD_FILES:
        written(reused, name, text)
        ran = reused.cli("batch", name)
        assert (ran.code, ran.out) == (2, ""), (text, ran)
        assert said in ran.err
        assert ran.err.count("\n") == 1, ran.err
    assert reused.jobs() == {}


def test_a_bad_command_line_is_refused_in_one_line_and_nothing_is_queued(
    reused: StokerHome,
) -> None:
    written(reused, "jobs.csv", "command\ntrue\n")
    written(reused, "jobs.jsonl", '{"command": "true"}\n')
    for words in BAD_WORDS:
        ran = reused.cli("batch", *words)
        assert (ran.code, ran.out) == (2, ""), (words, ran)
        assert ran.err.count("\n") == 1, ran.err
    assert reused.jobs() == {}


# ---------------------------------------------------------------------- seen through


def test_one_job_is_counted_in_the_singular(reused: StokerHome) -> None:
    written(reused, "one.csv", "command\ntrue\n")
    assert "stoker: 1 job queued in the group" in reused.cli("batch", "--no-wait", "one.csv").err


def test_the_groups_that_rows_name_are_told_and_not_the_files_own(reused: StokerHome) -> None:
    written(reused, "one.csv", "command,group\ntrue,big\ntrue,big\n")
    written(reused, "two.csv", "command,group\ntrue,big\ntrue,small\n")
    assert "2 jobs queued in the group big\n" in reused.cli("batch", "--no-wait", "one.csv").err
    ran = reused.cli("batch", "--json", "two.csv")
    assert "2 jobs queued in the groups big, small\n" in ran.err
    assert "(groups big, small)" in ran.err
    assert json.loads(ran.out)["group"] is None
    assert json.loads(reused.cli("batch", "--json", "one.csv").out)["group"] == "big"


def test_a_failure_is_told_with_its_line_and_the_exit_code_is_one(reused: StokerHome) -> None:
    written(reused, "jobs.csv", "name,command\ngood,true\nbad,exit 7\n")
    ran = reused.cli("batch", "jobs.csv")
    assert ran.code == 1
    assert "line 3 (bad): failed (exit code 7)" in ran.err
    assert "1 of 2 jobs succeeded" in ran.err


def test_a_batch_is_followed_over_the_death_of_the_daemon(reused: StokerHome) -> None:
    go = reused.work / "go"
    written(
        reused,
        "jobs.csv",
        f"command\ntouch running; until [ -e {go} ]; do sleep 0.05; done\ntrue\n",
    )
    with reused.popen("batch", "jobs.csv", stderr=subprocess.PIPE) as process:
        eventually((reused.work / "running").exists, "the first job runs")
        reused.kill_daemon()
        go.touch()
        _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, told
    assert b"2 of 2 jobs succeeded" in told


def test_ctrl_c_leaves_the_jobs_to_the_daemon(reused: StokerHome) -> None:
    go = reused.work / "go"
    written(reused, "jobs.csv", f"command\ntouch running; until [ -e {go} ]; do sleep 0.05; done\n")
    with reused.popen("batch", "jobs.csv", stderr=subprocess.PIPE) as process:
        eventually((reused.work / "running").exists, "the job runs")
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert f"stoker wait --group {group_of(reused)}" in told.decode()
    go.touch()
    assert reused.cli("wait", "--group", group_of(reused)).code == 0


def test_on_a_terminal_one_line_shows_how_far_it_is(reused: StokerHome) -> None:
    written(reused, "jobs.csv", "command\ntrue\nexit 4\n")
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(reused.work)
        words = reused.command("batch", "jobs.csv")
        os.execve(sys.executable, words, reused.env | {"TERM": "xterm"})
    shown = b""
    try:
        while chunk := os.read(screen, 4096):
            shown += chunk
    except OSError:
        pass  # So a terminal tells that its last process is gone.
    os.close(screen)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert b"/2 done" in shown
    assert b"line 3: failed (exit code 4)" in shown
    assert b"stoker logs" in shown


def test_no_wait_prints_the_ids_and_nothing_else(reused: StokerHome) -> None:
    written(reused, "jobs.csv", "command\ntrue\ntrue\n")
    ran = reused.cli("batch", "jobs.csv", "--no-wait")
    assert ran.code == 0
    assert [int(line) for line in ran.out.splitlines()] == sorted(reused.jobs())
    assert reused.cli("wait", "--group", group_of(reused)).code == 0
