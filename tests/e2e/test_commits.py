"""Which commit jobs were queued at, and whether files were changed, in every front end."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stoker.library.client import Client as Library
from stoker_home import StokerHome
from waiting import eventually

NOTHING = ("--gpus", "0", "--", "true")


def git(root: Path, *words: str) -> str:
    ran = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(root), *words],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return ran.stdout.strip()


@pytest.fixture
def project(home: StokerHome) -> Path:
    """A repository with one commit, in which nothing was changed; its jobs wait."""
    home.start(gpus="0")
    home.call("pause")
    root = home.work / "project"
    (root / "exp").mkdir(parents=True)
    (root / "exp" / "train.py").write_text("1\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


def known(home: StokerHome, job_id: int) -> dict[str, Any]:
    """What is on record once git has been asked."""

    def found() -> dict[str, Any] | None:
        [job] = home.call("show", select={"ids": [str(job_id)]})["jobs"]
        git: dict[str, Any] | None = job["git"]
        return git if git is not None and git["dirty"] is not None else None

    git = eventually(found)
    assert git is not None
    return git


def record(home: StokerHome, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(home.home.database)) as connection:
        return connection.execute(query).fetchall()


def add(home: StokerHome, cwd: Path, *words: str) -> int:
    ran = home.cli("add", *words, *NOTHING, cwd=cwd)
    assert ran.code == 0, ran.err
    return int(ran.out)


def test_a_clean_tree_and_a_changed_one_are_told_apart(home: StokerHome, project: Path) -> None:
    commit = git(project, "rev-parse", "HEAD")
    clean = add(home, project / "exp")
    assert known(home, clean) == {"commit": commit, "dirty": False, "repository": str(project)}
    (project / "new.py").write_text("not tracked\n")
    untracked = add(home, project)
    assert known(home, untracked)["dirty"] is False
    (project / "exp" / "train.py").write_text("2\n")
    changed = add(home, project)
    assert known(home, changed) == {"commit": commit, "dirty": True, "repository": str(project)}
    assert known(home, clean)["dirty"] is False
    assert f"commit      {commit} and changes\n" in home.cli("show", str(changed)).out
    assert f"commit      {commit}\n" in home.cli("show", str(clean)).out
    shown = json.loads(home.cli("show", "--json", str(clean)).out)
    listed = json.loads(home.cli("ls", "--json").out)
    assert shown["job"]["git"] == listed["jobs"][0]["git"] == known(home, clean)


def test_staged_and_deleted_files_are_changes(home: StokerHome, project: Path) -> None:
    (project / "staged.py").write_text("3\n")
    git(project, "add", "staged.py")
    assert known(home, add(home, project))["dirty"] is True
    git(project, "commit", "-qm", "second")
    (project / "exp" / "train.py").unlink()
    assert known(home, add(home, project))["dirty"] is True


def test_a_directory_without_git_has_nothing(home: StokerHome, project: Path) -> None:
    job = add(home, home.work)
    [shown] = home.call("show", select={"ids": [str(job)]})["jobs"]
    assert shown["git"] is None
    assert "commit" not in home.cli("show", str(job)).out


def test_a_frozen_job_has_the_commit_of_where_it_was_queued(
    home: StokerHome, project: Path
) -> None:
    frozen = known(home, add(home, project / "exp", "--freeze"))
    assert frozen["commit"] == git(project, "rev-parse", "HEAD")
    assert frozen["repository"] == str(project)


def test_a_sweep_is_recorded_once(home: StokerHome, project: Path) -> None:
    ran = home.cli("sweep", "x=range(1,1001)", *NOTHING, cwd=project)
    assert ran.code == 0, ran.err
    jobs = home.call("list", all=True)["jobs"]
    assert len(jobs) == 1000
    assert known(home, jobs[0]["id"]) == known(home, jobs[-1]["id"])
    assert record(home, "SELECT count(*), count(DISTINCT code) FROM jobs") == [(1000, 1)]
    assert record(home, "SELECT count(*) FROM code") == [(1,)]


def test_batch_feed_library_and_run_record_it(
    home: StokerHome, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(project, "rev-parse", "HEAD")
    (home.work / "elsewhere").mkdir()
    rows = f"command,cwd\ntrue,{project}/exp\ntrue,{home.work}/elsewhere\n"
    (home.work / "jobs.csv").write_text(rows)
    ran = home.cli("batch", "--csv", "jobs.csv", "--no-wait", "--gpus", "0", cwd=home.work)
    assert ran.code == 0, ran.err
    first, second = home.call("list", all=True)["jobs"][-2:]
    assert known(home, first["id"])["commit"] == commit
    assert second["git"] is None
    home.call("resume")
    ran = home.cli("feed", "--gpus", "0", stdin=b"true\n", cwd=project)
    assert ran.code == 0, ran.err
    assert known(home, home.call("list", all=True)["jobs"][-1]["id"])["commit"] == commit
    ran = home.cli("run", *NOTHING, cwd=project)
    assert ran.code == 0, ran.err
    assert known(home, home.call("list", all=True)["jobs"][-1]["id"])["commit"] == commit
    monkeypatch.chdir(project)
    with Library(home=home.home.root) as library:
        job = library.add("true", gpus=0)
        known(home, job)
        assert library.show(job)[0]["git"]["commit"] == commit


def test_a_job_that_moves_to_another_directory_loses_the_commit(
    home: StokerHome, project: Path
) -> None:
    job = add(home, project)
    known(home, job)
    assert home.cli("edit", str(job), "--priority", "3").code == 0
    assert known(home, job)["dirty"] is False
    assert home.cli("edit", str(job), "--cwd", str(home.work)).code == 0
    assert home.call("show", select={"ids": [str(job)]})["jobs"][0]["git"] is None


def test_what_only_removed_jobs_have_named_is_dropped(home: StokerHome, project: Path) -> None:
    job = add(home, project)
    home.call("cancel", select={"ids": [str(job)]})
    home.call("remove", select={"ids": [str(job)]})
    assert record(home, "SELECT count(*) FROM code") == [(0,)]
    assert known(home, add(home, project))["dirty"] is False


def test_programs_of_a_repository_are_not_started(home: StokerHome, project: Path) -> None:
    trap = home.work / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {home.work}/sprung\n")
    trap.chmod(0o755)
    hooks = home.work / "hooks"
    hooks.mkdir()
    os.symlink(trap, hooks / "post-index-change")
    git(project, "config", "core.hooksPath", str(hooks))
    git(project, "config", "core.fsmonitor", str(trap))
    assert known(home, add(home, project))["dirty"] is False
    assert not (home.work / "sprung").exists()


def test_git_that_takes_its_time_holds_up_neither_add_nor_the_end_of_the_daemon(
    home: StokerHome, project: Path
) -> None:
    """It stands before a pipe that nothing is written to, and the commit is known all the same."""
    commit = git(project, "rev-parse", "HEAD")
    os.mkfifo(home.work / "pipe")
    git(project, "config", "filter.slow.clean", f"cat {home.work}/pipe")
    (project / ".git" / "info" / "attributes").write_text("*.py filter=slow\n")
    (project / "exp" / "train.py").write_text("2\n")
    job = add(home, project)
    [shown] = home.call("show", select={"ids": [str(job)]})["jobs"]
    assert shown["git"] == {"commit": commit, "dirty": None, "repository": str(project)}
    assert "unknown whether changed" in home.cli("show", str(job)).out
    assert home.cli("daemon", "stop").code == 0
