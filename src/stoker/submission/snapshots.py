"""Code as it was at one moment: trees of read-only files below Stoker's home, one per state.

`frozen/blobs` has the content of files by its SHA-256, and `frozen/trees/ID` a directory of hard
links to them, where ID is made of all names and contents: what was frozen before is found again. A
file whose size, times and inode are those of last time is not read again (`frozen/index`).

Law: a tree is whole, and on disk, from the moment that it has its name.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import json
import os
import shutil
import stat
import time
from contextlib import contextmanager, suppress

from stoker.errors import Failed, Unavailable, UsageError
from stoker.submission.code_files import CACHES, CodeFiles, code_files
from stoker.submission.rules import TREES
from stoker.wholefile import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MANIFEST = ".manifest"
MOST_FILES = 100_000
_TRIES = 5
# A blob that has another time was written to, through a tree, by root, which modes do not stop.
_TIME_S = 946_684_800
# A file that changed this shortly before it was read may change again within the same tick.
_UNSURE_NS = 2_000_000_000
# A tree may belong to a submission that is under way, or to a feed that waits for its next line.
UNTOUCHED_FOR_S = 3600
_SYNCED_ONE_BY_ONE = 64


class Frozen:
    """A snapshot: the directory it is of, and the tree that has its files."""

    __slots__ = ("count", "is_new", "root", "tree")

    def __init__(self, root: str, tree: str, count: int, is_new: bool) -> None:
        self.root = root
        self.tree = tree
        self.count = count
        self.is_new = is_new


class _Changed(Exception):
    """A file was changed while it was read."""


class Snapshots:
    """Those of one home."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._base = os.path.join(home, "frozen")
        self._trees = os.path.join(home, TREES)
        self._written: list[str] = []  # blobs that are not yet known to be on disk

    def holds(self, directory: str) -> bool:
        """Whether a directory is in a tree: what is there is frozen already."""
        return directory.startswith(self._trees + "/")

    def freeze(self, root: str, most_bytes: int) -> Frozen:
        """The tree with the code of `root` as it is now."""
        try:
            for directory in ("blobs", "index", "trees"):
                os.makedirs(os.path.join(self._base, directory), 0o700, exist_ok=True)
            with self._locked():
                return self._frozen(root, most_bytes)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise Unavailable(
                    f"no room is left in {self._home} to freeze {root}",
                    "free some, e.g. with `stoker rm`; nothing was queued",
                ) from None
            where = error.filename or self._base
            raise Failed(f"can't freeze {root}: {where}: {error.strerror}", "") from None

    def collect(self, used: Collection[str], untouched_for_s: float = UNTOUCHED_FOR_S) -> int:
        """Delete trees that are not among the used ones; how many.

        A tree that has files of jobs' own, e.g. results, is never deleted.
        """
        if not os.path.isdir(self._trees):
            return 0
        gone = 0
        before = time.time() - untouched_for_s
        with self._locked():
            for name in sorted(os.listdir(self._trees)):
                path = os.path.join(self._trees, name)
                try:
                    touched = os.stat(os.path.join(path, MANIFEST)).st_mtime
                except OSError:
                    touched = 0.0  # What was making it was ended.
                if name in used or touched > before:
                    continue
                if touched and _has_more(path):
                    continue
                shutil.rmtree(path, ignore_errors=True)
                gone += 1
            if gone:
                self._drop_blobs()
        return gone

    # ------------------------------------------------------------------ making a tree

    def _frozen(self, root: str, most_bytes: int) -> Frozen:
        changing = ""
        for _ in range(_TRIES):
            found = code_files(root, self._home)
            try:
                entries, was_read = self._entries(root, found.files, most_bytes)
                # A file that was read early may have been changed before the last one was read.
                if was_read:
                    _require_unchanged(root, was_read)
                return self._tree(root, entries, found)
            except _Changed as changed:
                changing = str(changed)
        raise Failed(
            f"{os.path.join(root, changing)} changes while it is being frozen",
            "have git ignore it if it is no code; nothing was queued",
        )

    def _entries(
        self, root: str, names: list[str], most_bytes: int
    ) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
        """What each name is: its blob, or where a link points; and what had to be read."""
        if len(names) > MOST_FILES:
            raise UsageError(
                f"{root} has {len(names):,} files to freeze, more than {MOST_FILES:,}", _IGNORE
            )
        stats: dict[str, os.stat_result] = {}
        for name in names:
            with suppress(FileNotFoundError, NotADirectoryError):  # Deleted, but not in git.
                stats[name] = os.lstat(os.path.join(root, name))
        _require_small(root, stats, most_bytes)
        index_path = os.path.join(
            self._base, "index", hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        )
        known = _read_index(index_path)
        index: dict[str, list[int | str]] = {}
        entries: dict[str, str] = {}
        was_read: dict[str, tuple[int, ...]] = {}
        began_ns = time.time_ns()
        for name, status in stats.items():
            if stat.S_ISLNK(status.st_mode):
                entries[name] = "link " + _target(root, name)
                continue
            if not stat.S_ISREG(status.st_mode):
                continue  # A socket or the like is none of the code.
            mark = _mark(status)
            last = known.get(name)
            if last is not None and tuple(last[:-1]) == mark:
                blob = str(last[-1])
            else:
                blob = self._keep(os.path.join(root, name), name, mark)
                was_read[name] = mark
            entries[name] = blob
            if max(status.st_mtime_ns, status.st_ctime_ns) < began_ns - _UNSURE_NS:
                index[name] = [*mark, blob]
        if index != known:
            write_whole(index_path, json.dumps(index).encode())
        return entries, was_read

    def _keep(self, path: str, name: str, mark: tuple[int, ...]) -> str:
        """Have the content of a file as a blob; the blob's name."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except PermissionError:
            raise UsageError(
                f"{path} can't be read", "make it readable, or have git ignore it"
            ) from None
        except OSError:
            raise _Changed(name) from None
        with open(fd, "rb") as file:
            content = file.read()
            status = os.fstat(fd)
        if _mark(status) != mark or len(content) != status.st_size:
            raise _Changed(name)
        blob = hashlib.sha256(content).hexdigest() + ("x" if status.st_mode & 0o111 else "")
        kept = self._blob(blob)
        if not _is_intact(kept):
            self._write_blob(kept, content)
        return blob

    def _blob(self, blob: str) -> str:
        return os.path.join(self._base, "blobs", blob[:2], blob)

    def _write_blob(self, path: str, content: bytes) -> None:
        fresh = os.path.join(self._base, "blobs", ".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        fd = os.open(fresh, flags, 0o600)
        try:
            with open(fd, "wb", buffering=0, closefd=False) as file:
                view = memoryview(content)
                while view:
                    view = view[file.write(view) :]
            os.fchmod(fd, 0o555 if path.endswith("x") else 0o444)
            os.utime(fd, (_TIME_S, _TIME_S))
        finally:
            os.close(fd)
        try:
            os.rename(fresh, path)
        except FileNotFoundError:
            os.mkdir(os.path.dirname(path), 0o700)
            os.rename(fresh, path)
        self._written.append(path)

    def _tree(self, root: str, entries: dict[str, str], found: CodeFiles) -> Frozen:
        hashed = hashlib.sha256(os.fsencode(root) + b"\0")
        for name, entry in entries.items():
            hashed.update(os.fsencode(f"{name}\0{entry}\0"))
        snapshot = hashed.hexdigest()[:32]
        # A tree that a job wrote to is not for others. It stays, since jobs may be in it.
        for number in itertools.count():
            directory = os.path.join(self._trees, f"{snapshot}-{number}" if number else snapshot)
            manifest = os.path.join(directory, MANIFEST)
            tree = os.path.join(directory, os.path.basename(root) or "root")
            is_new = not os.path.exists(manifest)
            if is_new or self._is_whole(tree, entries):
                break
        if is_new:
            fresh = os.path.join(self._trees, ".new")
            shutil.rmtree(fresh, ignore_errors=True)
            try:
                self._fill(os.path.join(fresh, os.path.basename(tree)), root, entries)
                listed = json.dumps({"root": root, "files": [*entries]}).encode()
                write_whole(os.path.join(fresh, MANIFEST), listed, flush=True)
                self._sync(fresh)
                os.rename(fresh, directory)
            except BaseException:
                shutil.rmtree(fresh, ignore_errors=True)
                raise
            _sync_directory(self._trees)
        else:
            os.utime(manifest)
        # What is not code is the real thing. Some of it may be newer than the tree.
        for name in found.others:
            link = os.path.join(tree, name)
            with suppress(FileExistsError, NotADirectoryError):
                try:
                    os.symlink(os.path.join(root, name), link)
                except FileNotFoundError:
                    os.makedirs(os.path.dirname(link), exist_ok=True)
                    os.symlink(os.path.join(root, name), link)
        return Frozen(root, tree, len(entries), is_new)

    def _fill(self, tree: str, root: str, entries: dict[str, str]) -> None:
        os.makedirs(tree)
        made = {""}
        for name, entry in entries.items():
            parent = os.path.dirname(name)
            if parent not in made:
                os.makedirs(os.path.join(tree, parent), exist_ok=True)
                made.add(parent)
            path = os.path.join(tree, name)
            if entry.startswith("link "):
                os.symlink(entry[5:], path)
                continue
            blob = self._blob(entry)
            if not _is_intact(blob):
                self._renew(root, name, entry)
            try:
                os.link(blob, path)
            except OSError as error:
                if error.errno != errno.EMLINK:  # As many empty files may be.
                    raise
                os.unlink(blob)
                self._renew(root, name, entry)
                os.link(blob, path)

    def _is_whole(self, tree: str, entries: dict[str, str]) -> bool:
        """Whether the frozen files of a tree are still what was frozen."""
        try:
            for name, entry in entries.items():
                path = os.path.join(tree, name)
                if entry.startswith("link "):
                    if os.readlink(path) != entry[5:]:
                        return False
                    continue
                blob = os.lstat(self._blob(entry))
                if blob.st_mtime != _TIME_S or os.lstat(path).st_ino != blob.st_ino:
                    return False
        except OSError:
            return False
        return True

    def _renew(self, root: str, name: str, entry: str) -> None:
        """Have a blob again that is no longer what it was."""
        path = os.path.join(root, name)
        with suppress(FileNotFoundError):
            if self._keep(path, name, _mark(os.lstat(path))) == entry:
                return
        raise _Changed(name)

    # ------------------------------------------------------------------ the disk

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time: what is being made is not deleted by another."""
        path = os.path.join(self._base, "lock")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _sync(self, fresh: str) -> None:
        """Have a tree and its blobs on disk; few files are not to wait for what others write."""
        if len(self._written) > _SYNCED_ONE_BY_ONE:
            _sync_all(fresh)
        else:
            for path in self._written:
                _sync_directory(path)
        _sync_directory(fresh)
        self._written.clear()

    def _drop_blobs(self) -> None:
        """Delete those that are in no tree."""
        blobs = os.path.join(self._base, "blobs")
        for part in os.scandir(blobs):
            if not part.is_dir():
                continue
            for blob in os.scandir(part.path):
                if blob.stat(follow_symlinks=False).st_nlink == 1:
                    os.unlink(blob.path)


_IGNORE = (
    "have git ignore what is no code (jobs then use it where it is), or raise the limit with "
    "`stoker config set freeze-limit 1G`"
)


def _require_small(root: str, stats: dict[str, os.stat_result], most_bytes: int) -> None:
    total = sum(status.st_size for status in stats.values())
    if total <= most_bytes:
        return
    largest = sorted(stats, key=lambda name: -stats[name].st_size)[:3]
    named = ", ".join(f"{name} ({_size(stats[name].st_size)})" for name in largest)
    raise UsageError(
        f"{root} has {_size(total)} to freeze, more than {_size(most_bytes)}; largest: {named}",
        _IGNORE,
    )


def _size(count: int) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


def _mark(status: os.stat_result) -> tuple[int, ...]:
    """What is another number once a file is another, or has another content."""
    executable = status.st_mode & 0o111
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, executable


def _require_unchanged(root: str, was_read: dict[str, tuple[int, ...]]) -> None:
    for name, mark in was_read.items():
        try:
            if _mark(os.lstat(os.path.join(root, name))) == mark:
                continue
        except OSError:
            pass
        raise _Changed(name)


def _target(root: str, name: str) -> str:
    """Where a link is to point in the tree: to frozen files where it is to files of the root."""
    try:
        target = os.readlink(os.path.join(root, name))
    except OSError:
        raise _Changed(name) from None
    here = os.path.dirname(name)
    if not os.path.isabs(target):
        leaves = os.path.normpath(os.path.join(here, target)).startswith("..")
        return os.path.normpath(os.path.join(root, here, target)) if leaves else target
    if target == root or target.startswith(root + "/"):
        return os.path.relpath(target, os.path.join(root, here))
    return target


def _is_intact(blob: str) -> bool:
    try:
        return os.lstat(blob).st_mtime == _TIME_S
    except FileNotFoundError:
        return False


def _has_more(directory: str) -> bool:
    """Whether a tree has files that were not frozen: links to the real ones and caches apart."""
    with open(os.path.join(directory, MANIFEST), encoding="utf-8") as file:
        manifest = json.load(file)
    root, frozen = manifest["root"], set(manifest["files"])
    tree = os.path.join(directory, os.path.basename(root) or "root")
    for at, directories, files in os.walk(tree):
        directories[:] = [name for name in directories if name not in CACHES]
        for one in (*directories, *files):
            path = os.path.join(at, one)
            name = os.path.relpath(path, tree)
            if name in frozen:
                continue
            if os.path.islink(path):
                if os.readlink(path) != os.path.join(root, name):
                    return True
            elif one in files:
                return True
    return False


def _read_index(path: str) -> dict[str, list[int | str]]:
    try:
        with open(path, encoding="utf-8") as file:
            found: dict[str, list[int | str]] = json.load(file)
            return found
    except (OSError, ValueError):
        return {}


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_all(directory: str) -> None:
    """Have all that was written on this file system on disk, which is faster than file by file."""
    import ctypes

    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), directory)
    finally:
        os.close(fd)
