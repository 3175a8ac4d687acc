"""A job makes its files with the umask of its submitter, not with that of the daemon."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from library_home import run_script
from stoker.web import submitting
from stoker_home import StokerHome


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def umask_of(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(text.split("\nUmask:")[1].split()[0], 8)


def test_files_of_a_job_have_the_umask_of_its_submitter(stoker: StokerHome) -> None:
    daemons = umask_of(stoker.daemon_pid())
    work = stoker.work
    # Often enough that processes are made in both ways.
    for number, umask in enumerate((0o007, 0o077, 0o002, 0o777), 1):
        words = ["--out", f"out{number}", "--", "sh", "-c", f"umask; touch made{number}"]
        added = stoker.popen("add", *words, umask=umask)
        assert added.wait(60) == 0
        [job] = stoker.until_final(number)
        assert job["state"] == "succeeded"
        assert mode_of(work / f"made{number}") == 0o666 & ~umask
        assert mode_of(work / f"out{number}") == 0o666 & ~umask
        os.chmod(work / f"out{number}", 0o600)
        assert (work / f"out{number}").read_text().split() == [f"{umask:04o}"]
    assert umask_of(stoker.daemon_pid()) == daemons


def test_the_log_of_a_job_is_private_and_readable_whatever_its_umask_is(
    stoker: StokerHome,
) -> None:
    job = stoker.submit("echo", "said")
    other = stoker.submit_all([{"argv": ["echo", "said"]}], umask=0o777)[0]
    for one in stoker.until_final(job, other):
        assert mode_of(Path(one["log"])) == 0o600 and stoker.log_of(one["id"]) == "said\n"


def test_jobs_of_one_environment_and_two_umasks_keep_theirs_over_a_restart(
    stoker: StokerHome,
) -> None:
    stoker.call("pause")
    jobs = [stoker.submit_all([{"argv": ["sh", "-c", "umask"]}], umask=u)[0] for u in (0o27, 0o70)]
    stoker.kill_daemon()
    stoker.start()
    stoker.call("resume")
    stoker.until_final(*jobs)
    assert [stoker.log_of(job).strip() for job in jobs] == ["0027", "0070"]


def test_a_job_that_takes_the_environment_of_another_has_its_umask_too(stoker: StokerHome) -> None:
    [first] = stoker.submit_all([{"argv": ["true"]}], umask=0o27)
    fields = {"env": {}, "env_of": first, "umask": 0o70}
    [second] = stoker.submit_all([{"argv": ["sh", "-c", "umask"]}], **fields)
    stoker.until_final(second)
    assert stoker.log_of(second).strip() == "0027"


def test_an_attached_job_has_the_umask_of_its_own_terminal(stoker: StokerHome) -> None:
    words = ("run", "--", "sh", "-c", "umask > seen")
    assert stoker.popen(*words, umask=0o027, stderr=-3).wait(60) == 0
    assert (stoker.work / "seen").read_text() == "0027\n"


@pytest.mark.parametrize(
    "words",
    [
        ("batch", "jobs.jsonl"),
        ("sweep", "--gpus", "0", "n=1", "--", "umask > seen; : {n}"),
        ("feed", "--gpus", "0", "lines.txt"),
    ],
    ids=lambda words: words[0],
)
def test_all_verbs_that_queue_jobs_take_the_umask_along(
    stoker: StokerHome, words: tuple[str, ...]
) -> None:
    (stoker.work / "jobs.jsonl").write_text('{"command": "umask > seen", "gpus": 0}\n')
    (stoker.work / "lines.txt").write_text("umask > seen\n")
    quiet = subprocess.DEVNULL
    assert stoker.popen(*words, umask=0o027, stdout=quiet, stderr=quiet).wait(60) == 0
    stoker.until_final(1)
    assert (stoker.work / "seen").read_text() == "0027\n"


SCRIPT = """
import os, stoker
os.umask(0o027)
client = stoker.Client()
ids = [client.add("umask > add", gpus=0)]
ids += client.batch([{"command": "umask > batch", "gpus": 0}]).ids
ids += client.sweep("umask > sweep{n}", {"n": [1]}, gpus=0).ids
client.wait(ids)
assert stoker.submit(os.umask, 0, gpus=0).result() == 0o027
"""


def test_jobs_and_calls_of_the_library_take_the_umask_along(stoker: StokerHome) -> None:
    ran = run_script(stoker, SCRIPT)
    assert ran.code == 0, ran.err
    seen = {name: (stoker.work / name).read_text() for name in ("add", "batch", "sweep1")}
    assert set(seen.values()) == {"0027\n"}, seen


def test_jobs_of_the_page_take_the_umask_along_that_the_daemon_began_with() -> None:
    assert submitting.inherited("/")["umask"] == umask_of(os.getpid())
