"""Jobs with --freeze: they are queued in a tree that has the code as it is now."""

from __future__ import annotations

import os
from collections.abc import Mapping

from stoker.quantities import memory_mib
from stoker.submission.code_files import repository_of
from stoker.submission.editable_installs import editable_installs, pythons_named
from stoker.submission.snapshots import Frozen, Snapshots
from stoker.text.terminal import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.api.client import Client

LIMIT = "freeze-limit"  # the setting


def freeze_for(
    client: Client, jobs: list[dict[str, Any]], request: dict[str, Any], example: dict[str, Any]
) -> None:
    """Freeze the code of jobs that are about to be queued, and say what a user should know."""
    limit = client.call("config_get", name=LIMIT)["settings"][0]["value"]
    for note in freeze_jobs(client.home.root, limit, jobs, request, example):
        say(f"stoker: {note}")


def freeze_jobs(
    home: str,
    limit: str,
    jobs: list[dict[str, Any]],
    request: dict[str, Any],
    example: dict[str, Any],
) -> list[str]:
    """Change the jobs of a request that say `freeze`, all in one moment; what to tell of it.

    `freeze` is then the directory that the job was queued in, and `cwd` the one it will run in.
    Where a job is what many have in common, `example` is what one of them has for itself.
    """
    freezing = _Freezing(Snapshots(home), memory_mib(limit) * 2**20)
    for job in jobs:
        if job.get("freeze"):
            freezing.change(job, request, {**example, **job})
    return list(freezing.notes)


def queued_in(snapshots: Snapshots, job: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    """The directory whose code a job runs: if a job with --freeze queues it, that job's."""
    cwd: str = os.path.realpath(job.get("cwd") or request["cwd"])
    if not snapshots.holds(cwd):
        return cwd
    origin: str = request["env"].get("STOKER_SUBMIT_DIR", cwd)
    return origin


class _Freezing:
    """What the jobs of one request share is frozen, and looked at, once."""

    def __init__(self, snapshots: Snapshots, most_bytes: int) -> None:
        self.notes: dict[str, None] = {}
        self._snapshots = snapshots
        self._most_bytes = most_bytes
        self._frozen: dict[str, Frozen] = {}  # by root
        self._python_paths: dict[tuple[str, ...], str] = {}

    def change(self, job: dict[str, Any], request: dict[str, Any], example: dict[str, Any]) -> None:
        cwd: str = os.path.realpath(job.get("cwd") or request["cwd"])
        if self._snapshots.holds(cwd):
            job["freeze"] = queued_in(self._snapshots, job, request)
            return
        repository = repository_of(cwd)
        root = repository or cwd
        frozen = self._frozen.get(root)
        if frozen is None:
            frozen = self._frozen[root] = self._snapshots.freeze(root, self._most_bytes)
            if frozen.is_new:
                files = f"{frozen.count:,} file" + ("" if frozen.count == 1 else "s")
                ignored = f", those in paths that git ignores in {root}" if repository else ""
                self.notes[
                    f"froze {files} of {root}; files that jobs write into their directory are in "
                    f"{frozen.tree}{ignored}"
                ] = None
        code = request.get("code", {})
        if (known := code.get(job.get("cwd") or request["cwd"])) is not None:
            code[cwd] = known  # It is known by the directory that the job was queued in.
        job["freeze"] = cwd
        job["cwd"] = _in_tree(cwd, frozen)
        os.makedirs(job["cwd"], exist_ok=True)  # It may have no code.
        env = {**request["env"], **job.get("env", {})}
        words = example.get("argv") or [example.get("shell") or ""]
        path = self._python_path(env, words, cwd, frozen)
        if path != env.get("PYTHONPATH", ""):
            job["env"] = {**job.get("env", {}), "PYTHONPATH": path}
        self._name_paths([part for word in words for part in word.split()], cwd, frozen)

    def _python_path(self, env: dict[str, str], words: list[str], cwd: str, frozen: Frozen) -> str:
        """PYTHONPATH with frozen directories: those it names, and those of editable installs."""
        said = env.get("PYTHONPATH", "")
        names = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "HOME")
        pythons = pythons_named(words)
        key = (frozen.root, cwd, said, *(env.get(name, "") for name in names), *pythons)
        known = self._python_paths.get(key)
        if known is None:
            found = editable_installs(env, pythons, cwd, frozen.root)
            for name in found.unhandled:
                self.notes[
                    f"the editable install {name} is used as it is when the job runs; "
                    f"it can't be frozen"
                ] = None
            parts = [_in_tree(one, frozen) for one in found.directories]
            parts += [_in_tree(one, frozen) for one in said.split(":") if one]
            known = self._python_paths[key] = ":".join(dict.fromkeys(parts))
            if not found.directories and known == ":".join(filter(None, said.split(":"))):
                known = self._python_paths[key] = said
        return known

    def _name_paths(self, words: list[str], cwd: str, frozen: Frozen) -> None:
        """Warn of code that a command names where it may change, and of what it won't find."""
        for word in words:
            path = os.path.normpath(os.path.join(cwd, word))
            if word.startswith("../") and not _is_in(path, frozen) and os.path.exists(path):
                self.notes[
                    f"the command names {word}, which is not there as seen from frozen code; "
                    f"write {path} instead"
                ] = None
                continue
            frozen_file = _in_tree(word, frozen)
            if frozen_file == word or os.path.realpath(frozen_file) == os.path.realpath(word):
                continue  # It is none of the code.
            if os.path.isfile(frozen_file):
                inside = os.path.relpath(word, cwd)
                self.notes[
                    f"the command names {word}, which is not frozen; write {inside} instead"
                ] = None


def _is_in(path: str, frozen: Frozen) -> bool:
    return path == frozen.root or path.startswith(frozen.root + "/")


def _in_tree(path: str, frozen: Frozen) -> str:
    """Where a path of the root is in the tree; another path as it is."""
    return frozen.tree + path[len(frozen.root) :] if _is_in(path, frozen) else path
