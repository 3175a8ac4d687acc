"""The commit that is checked out, read without git, and what git's answer tells of earlier."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from stoker.api.field_types import CodeAt
from stoker.daemon.code_states import Status, was_dirty
from stoker.submission.repositories import commit_of

NAMES = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")


def git(root: Path, *words: str) -> str:
    ran = subprocess.run(
        ["git", *NAMES, "-C", str(root), *words], check=True, capture_output=True, text=True
    )
    return ran.stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    git(made, "init", "-q")
    for text in ("first", "second"):
        (made / "file").write_text(text)
        git(made, "add", "file")
        git(made, "commit", "-qm", text)
    return made


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD")


def test_the_commit_of_a_branch_is_read_from_its_file_or_the_packed_ones(root: Path) -> None:
    assert commit_of(str(root)) == head(root)
    git(root, "branch", "x")
    git(root, "pack-refs", "--all")
    assert commit_of(str(root)) == head(root)
    git(root, "commit", "-q", "--allow-empty", "-m", "third")
    assert commit_of(str(root)) == head(root)


def test_without_a_branch_the_commit_itself_is_checked_out(root: Path) -> None:
    git(root, "checkout", "-q", "HEAD~1")
    assert commit_of(str(root)) == head(root)


def test_a_worktree_has_its_own_commit(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(root, "worktree", "add", "-q", "-b", "side/line", str(other), "HEAD~1")
    assert commit_of(str(other)) == head(other) != head(root)
    git(root, "pack-refs", "--all")
    assert commit_of(str(other)) == head(other)


def test_a_submodule_has_its_own_commit(root: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "submodule", "--quiet", "add", str(root), "inner")
    assert commit_of(str(outer / "inner")) == head(root)
    assert commit_of(str(outer)) is None  # It has no commit yet.


def test_long_names_of_commits_are_read_too(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    assert commit_of(str(tmp_path)) == head(tmp_path)
    assert len(head(tmp_path)) == 64


@pytest.mark.parametrize(
    "text", ["", "ref: refs/heads/x", "ref: ../../secret", "ref: refs/heads/a", "zz" * 20, "\0"]
)
def test_what_is_not_a_commit_is_not_taken_for_one(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text(text)
    (tmp_path / ".git" / "refs" / "heads" / "a").write_text("ref: refs/heads/a")
    (tmp_path / "secret").write_text("a" * 40)
    assert commit_of(str(tmp_path)) is None


def test_a_pipe_in_the_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert commit_of(str(tmp_path)) is None
    os.mkfifo(tmp_path / "x")
    os.mkdir(tmp_path / "sub")
    os.mkfifo(tmp_path / "sub" / ".git")
    assert commit_of(str(tmp_path / "sub")) is None


A, B = "a" * 40, "b" * 40


@pytest.mark.parametrize(
    ("status", "dirty"),
    [
        (Status(A, (), 5), False),
        (Status(A, (5,), 5), True),
        (Status(A, (15, 5), 5), True),
        (Status(A, (15,), 5), None),  # It was changed after the submission, perhaps not before.
        (Status(A, (), 15), None),  # Changes may have been stashed since.
        (Status(B, (), 5), None),  # Another commit was checked out since.
    ],
)
def test_what_git_says_later_counts_only_if_it_was_so_before(
    status: Status, dirty: bool | None
) -> None:
    assert was_dirty(status, CodeAt("/r", A, 10)) is dirty
