"""Code as it was at one moment: what is frozen, what is not, and what is left when it goes."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.errors import Failed, Unavailable, UsageError
from stoker.submission import snapshots as module
from stoker.submission.snapshots import MANIFEST, Frozen, Snapshots

LIMIT = 10 * 2**20


def git(where: Path, *words: str) -> None:
    identity = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    subprocess.run(
        ["git", "-C", str(where), *identity, "-c", "protocol.file.allow=always", *words],
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(where)},
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a tracked file, a new one and an ignored directory."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q")
    (root / "train.py").write_text("print('old')\n")
    (root / ".gitignore").write_text("runs/\n*.pt\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    (root / "new.py").write_text("new = 1\n")
    (root / "runs").mkdir()
    (root / "runs" / "result").write_text("42")
    return root


@pytest.fixture
def store(tmp_path: Path) -> Snapshots:
    return Snapshots(str(tmp_path / "home"))


def frozen(store: Snapshots, root: Path) -> tuple[Frozen, Path]:
    found = store.freeze(str(root), LIMIT)
    return found, Path(found.tree)


def test_tracked_and_new_files_are_frozen_and_ignored_ones_are_the_real_ones(
    project: Path, store: Snapshots
) -> None:
    _, tree = frozen(store, project)
    (project / "train.py").write_text("print('new')\n")
    assert (tree / "train.py").read_text() == "print('old')\n"
    assert (tree / "new.py").read_text() == "new = 1\n"
    (tree / "runs" / "more").write_text("written by a job")
    assert (project / "runs" / "more").read_text() == "written by a job"
    assert not (tree / ".git").exists()


def test_the_same_code_has_one_tree_and_other_code_another(project: Path, store: Snapshots) -> None:
    first, tree = frozen(store, project)
    again, same = frozen(store, project)
    assert (first.is_new, again.is_new, tree) == (True, False, same)
    (project / "train.py").write_text("print('new')\n")
    changed, other = frozen(store, project)
    assert changed.is_new and other != tree
    # Files that did not change are there once.
    assert (tree / "new.py").stat().st_ino == (other / "new.py").stat().st_ino


def test_a_result_that_came_later_is_linked_into_the_tree_too(
    project: Path, store: Snapshots
) -> None:
    _, tree = frozen(store, project)
    (project / "best.pt").write_text("weights")
    assert frozen(store, project)[1] == tree
    assert (tree / "best.pt").read_text() == "weights"


def test_a_file_that_did_not_change_is_not_read_again(
    project: Path, store: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_UNSURE_NS", 0)
    frozen(store, project)
    read: list[str] = []
    keep = Snapshots._keep

    def counted(self: Snapshots, path: str, name: str, mark: tuple[int, ...]) -> str:
        read.append(name)
        return keep(self, path, name, mark)

    monkeypatch.setattr(Snapshots, "_keep", counted)
    frozen(store, project)
    assert read == []
    (project / "new.py").write_text("new = 2\n")
    assert (frozen(store, project)[1] / "new.py").read_text() == "new = 2\n"
    assert read == ["new.py"]


def test_a_change_that_keeps_size_and_time_is_seen(project: Path, store: Snapshots) -> None:
    frozen(store, project)
    before = (project / "new.py").stat()
    (project / "new.py").write_text("new = 7\n")
    os.utime(project / "new.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (frozen(store, project)[1] / "new.py").read_text() == "new = 7\n"


def test_links_executable_bits_and_odd_names_are_kept(project: Path, store: Snapshots) -> None:
    outside = project.parent / "outside.txt"
    outside.write_text("outside")
    (project / "pkg").mkdir()
    (project / "pkg" / "in").symlink_to("../train.py")
    (project / "pkg" / "absolute").symlink_to(project / "train.py")
    (project / "pkg" / "out").symlink_to("../../outside.txt")
    (project / "pkg" / "nowhere").symlink_to("missing")
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o755)
    (project / "mine.sh").write_text("#!/bin/sh\n: mine\n")
    (project / "mine.sh").chmod(0o700)
    (project / "größe λ\n.py").write_text("unicode")
    with open(os.path.join(os.fsencode(project), b"not-utf8-\xff"), "wb") as file:
        file.write(b"bytes")
    _, tree = frozen(store, project)
    (project / "train.py").write_text("print('new')\n")
    assert (tree / "pkg" / "in").read_text() == "print('old')\n"
    assert (tree / "pkg" / "absolute").read_text() == "print('old')\n"
    assert (tree / "pkg" / "out").read_text() == "outside"
    assert os.readlink(tree / "pkg" / "nowhere") == "missing"
    assert os.access(tree / "run.sh", os.X_OK)
    assert os.access(tree / "mine.sh", os.X_OK)
    assert not (tree / "new.py").stat().st_mode & 0o333
    assert (tree / "größe λ\n.py").read_text() == "unicode"
    with open(os.path.join(os.fsencode(tree), b"not-utf8-\xff"), "rb") as file:
        assert file.read() == b"bytes"


def test_a_hook_of_another_repository_freezes_this_one(
    project: Path, store: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = project.parent / "another"
    another.mkdir()
    git(another, "init", "-q")
    (project / "start.pt").write_text("tracked, although it would be ignored")
    git(project, "add", "-f", "start.pt")
    monkeypatch.setenv("GIT_DIR", str(another / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(another / ".git" / "index"))
    _, tree = frozen(store, project)
    links = {one.name: one.is_symlink() for one in tree.iterdir()}
    code = dict.fromkeys((".gitignore", "train.py", "new.py", "start.pt"), False)
    assert links == {**code, "runs": True}


def test_a_submodule_is_frozen_by_its_own_rules(project: Path, store: Snapshots) -> None:
    library = project.parent / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "lib.py").write_text("lib = 1\n")
    (library / ".gitignore").write_text("build/\n")
    git(library, "add", ".")
    git(library, "commit", "-qm", "first")
    git(project, "submodule", "add", "-q", str(library), "vendor/lib")
    (project / "vendor" / "lib" / "more.py").write_text("more = 1\n")
    (project / "vendor" / "lib" / "build").mkdir()
    _, tree = frozen(store, project)
    assert (tree / "vendor" / "lib" / "lib.py").read_text() == "lib = 1\n"
    assert (tree / "vendor" / "lib" / "more.py").read_text() == "more = 1\n"
    assert (tree / "vendor" / "lib" / "build").is_symlink()


def test_deleted_tracked_files_are_not_missed(project: Path, store: Snapshots) -> None:
    (project / "train.py").unlink()
    assert not (frozen(store, project)[1] / "train.py").exists()


def test_a_directory_without_git_is_frozen_but_for_data_and_results(
    tmp_path: Path, store: Snapshots
) -> None:
    root = tmp_path / "plain"
    for name in ("src/data/loader.py", "data/big.bin", ".venv/bin/python", "__pycache__/a.pyc"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    _, tree = frozen(store, root)
    (root / "src/data/loader.py").write_text("changed")
    assert (tree / "src/data/loader.py").read_text() == "src/data/loader.py"
    assert (tree / "data").is_symlink() and (tree / ".venv").is_symlink()
    assert not (tree / "__pycache__").exists()


def test_a_home_inside_the_project_is_not_frozen_with_it(project: Path) -> None:
    store = Snapshots(str(project / "home"))
    frozen(store, project)
    _, tree = frozen(store, project)
    assert not (tree / "home").exists()


def test_too_much_is_refused_with_the_largest_files(project: Path, store: Snapshots) -> None:
    (project / "weights.bin").write_bytes(b"x" * 3 * 2**20)
    with pytest.raises(UsageError, match=r"3\.0 MiB to freeze.*largest: weights\.bin \(3\.0 MiB"):
        store.freeze(str(project), 2**20)


def test_a_file_that_never_stands_still_is_named(
    project: Path, store: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    fstat = os.fstat
    times = iter(range(100))

    def growing(fd: int) -> os.stat_result:
        if os.readlink(f"/proc/self/fd/{fd}").endswith("/new.py"):
            (project / "new.py").write_text("x" * (next(times) + 10))
        return fstat(fd)

    monkeypatch.setattr(os, "fstat", growing)
    with pytest.raises(Failed, match=r"new\.py changes while it is being frozen"):
        frozen(store, project)


def test_a_file_that_changed_while_others_were_read_is_read_again(
    project: Path, store: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Snapshots._keep
    edits = iter(["new = 2\n"])

    def edited(self: Snapshots, path: str, name: str, mark: tuple[int, ...]) -> str:
        if name == "train.py" and (edit := next(edits, None)):
            (project / "new.py").write_text(edit)
        return keep(self, path, name, mark)

    monkeypatch.setattr(Snapshots, "_keep", edited)
    assert (frozen(store, project)[1] / "new.py").read_text() == "new = 2\n"


@pytest.mark.parametrize("call", ["link", "rename", "mkdir"])
def test_a_full_disk_leaves_one_line_and_no_tree(
    project: Path, store: Snapshots, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    frozen(store, project)
    (project / "pkg").mkdir()
    (project / "pkg" / "train.py").write_text("print('new')\n")

    def full(*words: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        with pytest.raises(Unavailable, match=r"no room is left .* nothing was queued"):
            frozen(store, project)
    assert frozen(store, project)[0].is_new


def test_a_blob_that_was_written_to_is_not_used_again(project: Path, store: Snapshots) -> None:
    _, tree = frozen(store, project)
    (tree / "new.py").chmod(0o644)
    (tree / "new.py").write_text("spoilt")
    (project / "train.py").write_text("print('new')\n")
    assert (frozen(store, project)[1] / "new.py").read_text() == "new = 1\n"


def _written_to(file: Path) -> None:
    file.chmod(0o644)
    file.write_text("spoilt")


def _replaced(file: Path) -> None:
    file.unlink()
    file.write_text("spoilt")


def _replaced_by_another(file: Path) -> None:
    (file.parent / "train.py").rename(file)


@pytest.mark.parametrize("spoil", [_written_to, _replaced, _replaced_by_another, Path.unlink])
def test_a_tree_that_a_job_wrote_to_is_not_used_again(
    project: Path, store: Snapshots, spoil: Callable[[Path], None]
) -> None:
    _, spoilt = frozen(store, project)
    spoil(spoilt / "new.py")
    made, tree = frozen(store, project)
    assert made.is_new and tree != spoilt and (tree / "new.py").read_text() == "new = 1\n"
    again, same = frozen(store, project)
    assert not again.is_new and same == tree
    assert store.collect({tree.parent.name}, untouched_for_s=-1) in (0, 1)
    assert (tree / "new.py").read_text() == "new = 1\n"


def test_a_link_that_a_job_pointed_elsewhere_is_not_used_again(
    project: Path, store: Snapshots
) -> None:
    (project / "link.py").symlink_to("new.py")
    _, spoilt = frozen(store, project)
    (spoilt / "link.py").unlink()
    (spoilt / "link.py").symlink_to("train.py")
    assert os.readlink(frozen(store, project)[1] / "link.py") == "new.py"


def test_unused_trees_are_deleted_with_their_blobs(project: Path, store: Snapshots) -> None:
    _, old = frozen(store, project)
    (project / "train.py").write_text("print('new')\n")
    _, kept = frozen(store, project)
    assert store.collect({kept.parent.name}) == 0  # A submission may be under way.
    an_hour_ago = time.time() - module.UNTOUCHED_FOR_S - 1
    os.utime(old.parent / MANIFEST, (an_hour_ago, an_hour_ago))
    os.utime(kept.parent / MANIFEST, (an_hour_ago, an_hour_ago))
    (old / "__pycache__").mkdir()
    (old / "__pycache__" / "train.pyc").write_text("cache")
    assert store.collect({kept.parent.name}) == 1
    assert not old.exists() and (kept / "new.py").read_text() == "new = 1\n"
    blobs = [path for path in (old.parents[2] / "blobs").rglob("*") if path.is_file()]
    assert len(blobs) == 3
    assert (project / "runs" / "result").read_text() == "42"


def test_a_tree_with_results_of_jobs_is_never_deleted(project: Path, store: Snapshots) -> None:
    _, tree = frozen(store, project)
    (tree / "checkpoint").write_text("weights")
    assert store.collect(set(), untouched_for_s=-1) == 0
    (tree / "checkpoint").unlink()
    assert store.collect(set(), untouched_for_s=-1) == 1


def test_five_thousand_files_are_frozen_again_in_under_a_second(
    project: Path, store: Snapshots
) -> None:
    for number in range(5000):
        path = project / f"pkg{number // 50}" / f"module{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"value = {number}\n" * 20)
        os.utime(path, (1, 1))
    frozen(store, project)
    began = time.process_time()
    assert not frozen(store, project)[0].is_new
    assert time.process_time() - began < 1.0  # Of our own: other processes may be busy.
