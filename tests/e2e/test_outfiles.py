"""Files named with --out and --err: what is in them is never lost silently."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.errors import UsageError
from stoker.library.client import Client
from stoker_home import StokerHome
from waiting import PATIENCE_S, eventually

EXISTS = "add --append or --overwrite, or name another file"


@pytest.fixture
def precious(reused: StokerHome) -> Path:
    path = reused.work / "precious.txt"
    path.write_text("old\n")
    return path


def test_an_output_file_that_has_content_is_refused_in_one_line(
    reused: StokerHome, precious: Path
) -> None:
    for option in ("--out", "--err"):
        ran = reused.cli("add", option, precious.name, "--", "echo", "new")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == f"stoker: {option}: {precious} exists; {EXISTS}\n"
    (reused.work / "j.csv").write_text(f"command,out\necho new,{precious.name}\n")
    ran = reused.cli("batch", "j.csv")
    assert (ran.code, ran.out) == (2, "") and f"{precious} exists; {EXISTS}" in ran.err
    ran = reused.cli("run", "--out", precious.name, "--", "echo", "new")
    assert ran.code == 2 and EXISTS in ran.err
    with Client(reused.home.root) as client, pytest.raises(UsageError, match="exists"):
        client.add("echo new", out=precious)
    job = reused.add("--hold", "--", "echo", "new")
    for option in ("--out", "--err"):
        ran = reused.cli("edit", str(job), option, precious.name)
        assert ran.code == 2 and f"{option}: {precious} exists; {EXISTS}" in ran.err
    assert precious.read_text() == "old\n" and list(reused.jobs()) == [job]


def test_of_many_jobs_the_files_of_each_are_looked_at(reused: StokerHome, precious: Path) -> None:
    (reused.work / "j.csv").write_text(f"command,out,err\ntrue,new,{precious.name}\ntrue,,\n")
    ran = reused.cli("batch", "--no-wait", "--hold", "j.csv")
    assert ran.code == 2 and f"--err: {precious} exists" in ran.err
    for option in ("--out", "--err"):
        ran = reused.cli("sweep", option, "{a}.txt", "a=precious,new", "--", "echo", "{a}")
        assert ran.code == 2 and f"{option}: {precious} exists" in ran.err
    jobs = [{"shell": "true", "err": str(precious)}, {"shell": "true"}, {"shell": "false"}]
    for order in (jobs, jobs[::-1]):
        for submission in ({"jobs": order}, {"jobs": [{"argv": ["true"]}], "each": order}):
            with pytest.raises(UsageError, match=r"--err: .* exists"):
                reused.submit_all(**submission)
    assert reused.jobs() == {}


def test_append_and_overwrite_say_what_becomes_of_it(reused: StokerHome, precious: Path) -> None:
    reused.until_final(reused.add("--append", "--out", precious.name, "--", "echo", "new"))
    assert precious.read_text() == "old\nnew\n"
    reused.stoker("run", "--append", "--out", precious.name, "--", "echo", "here")
    assert precious.read_text() == "old\nnew\nhere\n"
    job = reused.add("--hold", "--overwrite", "--out", precious.name, "--", "echo", "too")
    reused.stoker("edit", str(job), "--append")
    reused.stoker("release", str(job))
    reused.until_final(job)
    assert precious.read_text() == "old\nnew\nhere\ntoo\n"
    reused.stoker("run", "--overwrite", "--out", precious.name, "--", "echo", "anew")
    assert precious.read_text() == "anew\n"
    job = reused.add("--overwrite", "--out", precious.name, "--", "echo", "newer")
    reused.until_final(job)
    assert precious.read_text() == "newer\n"
    reused.stoker("retry", str(job))
    reused.until_final(job)
    assert precious.read_text() == "newer\nnewer\n", "a retry goes on with its own file"
    both = reused.cli("add", "--append", "--overwrite", "--out", "x", "--", "true")
    assert both.code == 2 and "exclude each other" in both.err
    job = reused.add("--hold", "--append", "--out", precious.name, "--", "echo", "last")
    reused.stoker("edit", str(job), "--overwrite")
    reused.stoker("release", str(job))
    reused.until_final(job)
    assert precious.read_text() == "last\n"


def test_a_file_that_appears_between_submission_and_start_is_not_lost(reused: StokerHome) -> None:
    path = reused.work / "late.txt"
    job = reused.add("--hold", "--out", path.name, "--", "echo", "new")
    path.write_text("appeared\n")
    reused.stoker("release", str(job))
    reused.until_final(job)
    assert path.read_text() == "appeared\nnew\n"


def test_a_file_that_appears_while_a_job_waits_in_a_terminal_is_not_lost(
    reused: StokerHome,
) -> None:
    path = reused.work / "late.txt"
    reused.stoker("pause")
    with reused.popen("run", "--out", path.name, "--", "echo", "new") as running:
        try:
            eventually(reused.jobs, "it is queued")
            path.write_text("appeared\n")
            reused.stoker("resume")
            assert running.wait(PATIENCE_S) == 0
        finally:
            running.kill()
    assert path.read_text() == "appeared\nnew\n"


def test_empty_files_and_devices_may_be_written_to(reused: StokerHome) -> None:
    (reused.work / "empty").touch()
    job = reused.add("--out", "empty", "--err", "/dev/null", "--", "echo", "new")
    ran = reused.cli("add", "--hold", "--out", "/dev/null", "--", "true")
    assert (ran.code, ran.err) == (0, "")
    reused.until_final(job)
    assert (reused.work / "empty").read_text() == "new\n"


def test_two_waiting_jobs_with_one_file_are_told_of_each_other(reused: StokerHome) -> None:
    first = reused.add("--hold", "--out", "shared.txt", "--", "true")
    ran = reused.cli("add", "--hold", "--err", "shared.txt", "--", "true")
    assert ran.code == 0
    path = reused.work / "shared.txt"
    assert f"job {first} has not ended, and writes to {path} as well" in ran.err
    (reused.work / "j.csv").write_text("command,out\ntrue,o\ntrue,p\ntrue,o\n")
    ran = reused.cli("batch", "--no-wait", "--hold", "j.csv")
    ids = [int(line) for line in ran.out.split()]
    assert f"jobs {ids[0]} and {ids[2]} both write to {reused.work / 'o'}" in ran.err


def test_a_waiting_job_that_writes_its_errors_to_a_file_is_told_of_too(reused: StokerHome) -> None:
    first = reused.add("--hold", "--err", "shared.txt", "--", "true")
    ran = reused.cli("add", "--hold", "--out", "shared.txt", "--", "true")
    assert f"job {first} has not ended, and writes to {reused.work / 'shared.txt'}" in ran.err
    reused.stoker("cancel", "--all")
    ran = reused.cli("add", "--hold", "--out", "shared.txt", "--", "true")
    assert (ran.code, ran.err) == (0, ""), "those that have ended write no more"


def test_jobs_that_share_files_are_named_by_their_ids_and_many_are_counted(
    reused: StokerHome,
) -> None:
    # Jobs that are not alike, of which the first ones have no files.
    jobs = [{"shell": "true", "hold": True, "priority": n} for n in range(2)]
    files = [str(reused.work / f"{n}.txt") for n in range(5)]
    jobs += [{"shell": "true", "hold": True, "priority": 2, "out": one} for one in files[:1] * 2]
    order = {"cwd": str(reused.work), "env": reused.env, "user": "tester"}
    answer = reused.call("submit", jobs=jobs, **order)
    ids = answer["ids"]
    assert answer["warnings"] == [f"jobs {ids[2]} and {ids[3]} both write to {files[0]}"]
    jobs = [{"shell": "true", "hold": True, "out": one} for one in files[1:] * 2]
    answer = reused.call("submit", jobs=jobs, **order)
    ids = answer["ids"]
    *named, rest = answer["warnings"]
    assert named == [
        f"jobs {ids[n]} and {ids[n + 4]} both write to {files[n + 1]}" for n in range(3)
    ]
    assert rest == "and 1 more such files"
    three = [{"shell": "true", "hold": True, "out": f"{one}.x"} for one in files[:3] * 2]
    assert len(reused.call("submit", jobs=three, **order)["warnings"]) == 3


def test_a_shared_file_is_told_of_by_edit_and_through_a_link(reused: StokerHome) -> None:
    first = reused.add("--hold", "--out", "one.txt", "--", "true")
    second, third = (reused.add("--hold", "--", "true") for _ in range(2))
    path = reused.work / "one.txt"
    ran = reused.cli("edit", str(second), "--out", "one.txt")
    assert ran.code == 0
    assert f"job {first} has not ended, and writes to {path} as well" in ran.err
    ran = reused.cli("edit", str(second), str(third), "--err", "two.txt")
    both = f"jobs {second} and {third} both write to {reused.work / 'two.txt'}"
    assert ran.code == 0 and both in ran.err
    (reused.work / "link.txt").symlink_to(path)
    ran = reused.cli("add", "--hold", "--out", "link.txt", "--", "true")
    assert f"job {second} has not ended, and writes to {reused.work / 'link.txt'} as" in ran.err


@pytest.mark.parametrize("link", ["symlink", "dangling symlink", "hard link", "directory"])
def test_a_waiting_job_whose_file_is_a_link_to_that_of_another_is_told_of(
    reused: StokerHome, link: str
) -> None:
    path, other = reused.work / "one.txt", reused.work / "link.txt"
    if link == "directory":
        path, other = reused.work / "real" / "one.txt", reused.work / "link" / "one.txt"
        path.parent.mkdir()
        other.parent.symlink_to(path.parent)
    elif link == "dangling symlink":
        other.symlink_to(path)
    else:
        path.touch()
        (other.hardlink_to if link == "hard link" else other.symlink_to)(path)
    reused.add("--hold", "--", "true")  # A job without files is in nobody's way.
    first = reused.add("--hold", "--out", str(other), "--", "true")
    ran = reused.cli("add", "--hold", "--err", str(path), "--", "true")
    assert ran.code == 0
    assert f"job {first} has not ended, and writes to {path} as well" in ran.err
    reused.stoker("cancel", "--all")
    ran = reused.cli("add", "--hold", "--out", str(path), "--", "true")
    assert (ran.code, ran.err) == (0, ""), "those that have ended write no more"
    ran = reused.cli("add", "--hold", "--out", str(path) + "2", "--", "true")
    assert (ran.code, ran.err) == (0, ""), "another file is another file"


def test_a_waiting_job_whose_file_is_called_by_its_id_is_told_of(reused: StokerHome) -> None:
    first = reused.add("--hold", "--name", "a", "--out", "{name}-{id}.txt", "--", "true")
    ran = reused.cli("add", "--hold", "--out", f"a-{first}.txt", "--", "true")
    assert f"job {first} has not ended, and writes to {reused.work}/a-{first}.txt" in ran.err


def test_a_job_that_is_edited_twice_is_told_of_the_other_twice(reused: StokerHome) -> None:
    first = reused.add("--hold", "--out", "one.txt", "--", "true")
    second = reused.add("--hold", "--", "true")
    for _ in range(2):  # The second time it is itself the latest that writes there.
        ran = reused.cli("edit", str(second), "--out", "one.txt")
        assert f"job {first} has not ended, and writes to {reused.work / 'one.txt'}" in ran.err
    ran = reused.cli("edit", str(first), "--err", "one.txt")
    assert f"job {second} has not ended, and writes to {reused.work / 'one.txt'}" in ran.err


def test_a_pipe_is_refused_in_every_front_end_and_blocks_no_one(reused: StokerHome) -> None:
    pipe = reused.work / "pipe"
    os.mkfifo(pipe)
    held = reused.add("--hold", "--", "true")
    for option in ("--out", "--err"):
        for words in (("add",), ("run",), ("edit", str(held))):
            command = () if words[0] == "edit" else ("--", "true")
            ran = reused.cli(*words, option, "pipe", *command)
            assert ran.code == 2 and ran.err.count("\n") == 1, ran.err
            assert f"{option}: {pipe} is neither a file nor a terminal; name a file" in ran.err
    (reused.work / "j.csv").write_text("command,out\ntrue,pipe\n")
    ran = reused.cli("batch", "j.csv")
    assert ran.code == 2 and "is neither a file nor a terminal" in ran.err
    with Client(reused.home.root) as client, pytest.raises(UsageError, match="neither a file nor"):
        client.add("true", out=pipe)
    assert list(reused.jobs()) == [held]


def test_paths_of_several_jobs_are_edited_at_once_each_from_its_own_directory(
    reused: StokerHome,
) -> None:
    for name in ("a", "b", "a/sub"):
        (reused.work / name).mkdir()
    jobs = [reused.add("--hold", "--cwd", name, "--", "true") for name in ("a", "b")]
    ended = reused.add("--", "true")
    reused.until_final(ended)
    both = f"{jobs[0]},{jobs[1]}"
    ran = reused.cli("edit", f"{both},{ended}", "--err", "e.txt")
    assert ran.code == 0 and f"; not: job {ended} (succeeded)" in ran.out + ran.err
    # One of them has no such directory.
    ran = reused.cli("edit", both, "--cwd", "sub")
    assert ran.code == 0, ran.err
    assert f"changed: job {jobs[0]}; not: job {jobs[1]} (there is no directory" in ran.out + ran.err
    assert reused.job(jobs[0])["cwd"] == str(reused.work / "a" / "sub")
    ran = reused.cli("edit", both, "--cwd", str(reused.work))
    assert ran.code == 0 and {reused.job(job)["cwd"] for job in jobs} == {str(reused.work)}
    reused.stoker("release", both)
    reused.until_final(*jobs)
    assert (reused.work / "a" / "e.txt").exists() and (reused.work / "b" / "e.txt").exists()


@pytest.mark.parametrize("is_read", [False, True])
def test_a_file_that_became_a_pipe_fails_its_own_job_only(
    reused: StokerHome, is_read: bool
) -> None:
    pipe = reused.work / "late"
    job = reused.add("--hold", "--out", "late", "--", "echo", "new")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK) if is_read else None
    try:
        reused.stoker("release", str(job))
        other = reused.add("--", "true")
        states = [found["state"] for found in reused.until_final(job, other)]
    finally:
        if reader is not None:
            os.close(reader)
    assert states == ["failed", "succeeded"]
    assert str(pipe) in reused.stoker("show", str(job))
    ran = reused.cli("logs", str(job))
    assert ran.code == 1 and f"can't read the log {pipe}: it is a pipe" in ran.err
    with Client(reused.home.root) as client:
        assert client.logs(job) == ""


def test_a_templated_file_of_a_sweep_gets_its_directory(reused: StokerHome) -> None:
    sweep = ("sweep", "--name", "s", "--out", "logs/{a}/{point}.txt", "a=1,2", "--")
    dry = reused.cli("sweep", "--dry-run", *sweep[1:], "echo", "{a}")
    assert dry.code == 0 and not (reused.work / "logs").exists()
    reused.stoker(*sweep, "sh", "-c", "echo {a}; [ {a} = 1 ] || [ -e fixed ]")
    reused.until_final(*reused.jobs())
    assert [p.read_text() for p in sorted(reused.work.glob("logs/*/*.txt"))] == ["1\n", "2\n"]
    (reused.work / "fixed").touch()
    reused.stoker(*sweep, "sh", "-c", "echo {a}; [ {a} = 1 ] || [ -e fixed ]")
    reused.until_final(*reused.jobs())
    # The point that failed is run again, and goes on with its file; the other one is done.
    assert [p.read_text() for p in sorted(reused.work.glob("logs/*/*.txt"))] == ["1\n", "2\n2\n"]


def test_a_file_that_is_no_template_must_have_its_directory(reused: StokerHome) -> None:
    ran = reused.cli("sweep", "--out", "logs/all.txt", "a=1", "--", "echo", "{a}")
    assert ran.code == 2 and "there is no directory" in ran.err
    assert reused.jobs() == {} and not (reused.work / "logs").exists()


def test_a_new_sweep_does_not_touch_files_of_others(reused: StokerHome, precious: Path) -> None:
    (reused.work / "run-1.txt").write_text("old\n")
    ran = reused.cli("sweep", "--out", "run-{a}.txt", "a=1,2", "--", "echo", "{a}")
    assert ran.code == 2 and EXISTS in ran.err
    assert reused.jobs() == {} and (reused.work / "run-1.txt").read_text() == "old\n"
