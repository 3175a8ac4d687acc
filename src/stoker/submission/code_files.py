"""Which files of a directory are its code, and what else lies there: data, results, environments.

In a repository, git's own rules tell them apart: code is what is tracked, and what is new and not
ignored. Elsewhere, all files are code but those below directories with usual names for the rest.
"""

from __future__ import annotations

import os
import subprocess

from stoker.errors import Failed, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Made anew from the code wherever it runs, so neither frozen nor shared.
CACHES = frozenset((
    "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints",
))  # fmt: skip
_HISTORY = frozenset((".git", ".hg", ".svn"))
_NO_CODE = frozenset((".venv", "venv", "node_modules", ".tox", ".nox", ".eggs", "wandb", "mlruns"))
_NO_CODE_AT_THE_TOP = frozenset((
    "data", "datasets", "runs", "outputs", "output", "results", "checkpoints", "logs",
    "lightning_logs", "multirun",
))  # fmt: skip
# Set for hooks and aliases of git, they would make it look at another repository.
_OF_ANOTHER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")


class CodeFiles:
    """Names below a root: files of the code, and `others`, which a frozen tree has links to."""

    __slots__ = ("files", "others")

    def __init__(self) -> None:
        self.files: list[str] = []
        self.others: list[str] = []


def repository_of(directory: str) -> str | None:
    """The top of the repository that a directory is in; None if it is in none."""
    at = directory
    while not os.path.lexists(os.path.join(at, ".git")):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    return at


def code_files(root: str, leave_out: str) -> CodeFiles:
    """All of them, in a fixed order; nothing below `leave_out`."""
    found = CodeFiles()
    if os.path.lexists(os.path.join(root, ".git")):
        _of_repository(root, "", found)
    else:
        _of_directory(root, found)
    out = os.path.relpath(leave_out, root)
    if not out.startswith("../"):
        found.files = [name for name in found.files if not _is_below(name, out)]
        found.others = [name for name in found.others if not _is_below(name, out)]
    found.files = sorted(dict.fromkeys(found.files))
    return found


def _is_below(name: str, directory: str) -> bool:
    return name == directory or name.startswith(directory + "/")


def _of_repository(root: str, prefix: str, found: CodeFiles) -> None:
    """What a repository has; submodules, and other repositories in it, by their own rules."""
    top = os.path.join(root, prefix)
    ours = _git(top, "-co")
    ignored = _git(top, "-oi", "--directory")
    for name in _names(ours, top):
        full = os.path.join(top, name)
        if name.endswith("/") or (os.path.isdir(full) and not os.path.islink(full)):
            name = name.rstrip("/")
            if os.path.lexists(os.path.join(full, ".git")):
                _of_repository(root, f"{prefix}{name}/", found)
        else:
            found.files.append(prefix + name)
    for name in _names(ignored, top):
        name = name.rstrip("/")
        parts = name.split("/")
        if CACHES.isdisjoint(parts) and not name.endswith(".pyc") and parts[-1] != ".git":
            found.others.append(prefix + name)


def _git(top: str, *which: str) -> subprocess.Popen[bytes]:
    """git, at work on its list while the next one begins."""
    env = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}
    words = ["git", "-C", top, "ls-files", "-z", "--exclude-standard", *which]
    try:
        return subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**env, "LC_ALL": "C"},
        )  # fmt: skip
    except FileNotFoundError:
        raise UsageError(
            f"git was not found, and {top} is a repository", "install it, or leave out --freeze"
        ) from None


def _names(git: subprocess.Popen[bytes], top: str) -> list[str]:
    listed, errors = git.communicate()
    if git.returncode != 0:
        first = (errors.decode("utf-8", "replace").strip() or "no reason given").splitlines()[0]
        raise Failed(f"git can't list the files of {top}: {first}", "nothing was queued")
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def _of_directory(root: str, found: CodeFiles) -> None:
    for name, is_code in _walk(root, "", _NO_CODE | _NO_CODE_AT_THE_TOP):
        (found.files if is_code else found.others).append(name)


def _walk(root: str, prefix: str, no_code: frozenset[str]) -> Iterator[tuple[str, bool]]:
    try:
        with os.scandir(os.path.join(root, prefix)) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(
            f"can't read {os.path.join(root, prefix)}: {error.strerror}",
            "make it readable, or queue from a directory without it",
        ) from None
    for entry in inside:
        name = prefix + entry.name
        if not entry.is_dir(follow_symlinks=False):
            if not name.endswith(".pyc"):
                yield name, True
        elif os.path.lexists(os.path.join(root, name, ".git")):
            nested = CodeFiles()
            _of_repository(root, f"{name}/", nested)
            yield from ((one, True) for one in nested.files)
            yield from ((one, False) for one in nested.others)
        elif entry.name in no_code:
            yield name, False
        elif entry.name not in CACHES and entry.name not in _HISTORY:
            yield from _walk(root, f"{name}/", _NO_CODE)
