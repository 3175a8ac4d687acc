"""What is needed to start a job, as the store keeps it: JSON of what has no column of its own."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from stoker.core.change import Change
from stoker.core.code import Code
from stoker.core.model import Launch
from stoker.core.per_job import PerJob
from stoker.ports import BrokenRecord
from stoker.store.named_sql import queries
from stoker.store.rows import requirements_from

_KEPT = 64  # Jobs that start one after the other are often alike.
_AHEAD = 50
_NO_ENVIRONMENT: tuple[int, tuple[dict[str, str], int | None]] = (0, ({}, None))
_json = msgspec.json.encode
_lines = msgspec.json.Encoder().encode_lines


def launch_body(launch: Launch) -> str:
    """What has no column of its own, and is not as it usually is."""
    (argv, shell, cwd, _, extra_env, _, _, out, err, gpu_arg, _, _, _, _, slurm, _, options,
     _) = launch  # fmt: skip
    fields: dict[str, Any] = {"cwd": cwd}
    if argv:
        fields["argv"] = argv
    if shell is not None:
        fields["shell"] = shell
    if extra_env:
        fields["extra_env"] = extra_env
    if out is not None:
        fields["out"] = out
    if err is not None:
        fields["err"] = err
    if gpu_arg:
        fields["gpu_arg"] = True
    if slurm:
        fields["cluster_options"] = slurm
    if options:
        fields["options"] = options
    return _json(fields).decode()


def launch_bodies(launch: Launch, each: Sequence[PerJob]) -> Iterator[str]:
    """The same of each of many jobs that share a launch; what they share is written once."""
    usual = launch_body(launch)
    shared = launch_body(launch._replace(argv=(), shell=None)).removesuffix("}")
    commands = json_of_each([own.argv or own.shell for own in each])
    for own, command in zip(each, commands, strict=True):
        if own.out is not None or own.err is not None:
            yield launch_body(launch.with_own(own, ""))
        elif own.argv:
            yield f'{shared},"argv":{command}}}'
        elif own.shell is not None:
            yield f'{shared},"shell":{command}}}'
        else:
            yield usual


def json_of_each(values: Sequence[Any]) -> list[str]:
    """The JSON of each of many values, made at once; there is never a newline in it."""
    return _lines(values).decode().split("\n")[:-1]


class Launches:
    """Reads them, some ahead, and remembers what jobs have in common."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sql = queries()
        self._last_environment = _NO_ENVIRONMENT
        self._similar: dict[tuple[Any, ...], tuple[Launch, dict[str, Any]]] = {}  # and its fields
        self._read_ahead: dict[int, tuple[Any, ...]] = {}  # rows, by job
        self._just_committed: dict[int, Launch] = {}
        self._last_id = 0

    def committed(self, change: Change) -> None:
        """Keep those of jobs that came and are to start in the same turn, until the next commit.

        They are what was written, and need not be read back.
        """
        self._just_committed = {}
        if not change.placed or not (change.submitted or change.submitted_together):
            return
        placed, kept = set(change.placed), self._just_committed
        for one in change.submitted:
            if one.job_id in placed:
                kept[one.job_id] = one.launch or Launch()
        for many in change.submitted_together:
            for job_id in placed:
                if job_id in many.ids:
                    place = job_id - many.first_id
                    kept[job_id] = many.launch.with_own(many.each[place], many.kinds[place])
        for edit in change.edited:
            kept.pop(edit.job_id, None)

    def of(self, job_id: int) -> Launch:
        """See ports.Store.launch."""
        just_committed = self._just_committed.pop(job_id, None)
        if just_committed is not None:
            self._last_id = job_id
            return just_committed
        row = self._read_ahead.pop(job_id, None)
        if row is None:
            # Jobs mostly start in the order of their numbers.
            last = job_id + (_AHEAD if job_id == self._last_id + 1 else 0)
            rows = self._connection.execute(self._sql["launches"], {"first": job_id, "last": last})
            self._read_ahead = {row[0]: row[1:] for row in rows}
            row = self._read_ahead.pop(job_id, None)
            if row is None:
                raise BrokenRecord(f"job {job_id} is not in the store")
        self._last_id = job_id
        *alike, params, point = row
        key = tuple(alike)
        known = self._similar.get(key)
        if known is None:
            if len(self._similar) >= _KEPT:
                self._similar.clear()
            fields = self._fields(*key)
            known = self._similar[key] = (Launch(**fields), fields)
        launch, fields = known
        if params or point is not None:
            its_params = msgspec.json.decode(params) if params else {}
            return Launch(**fields, params=its_params, point=point)
        return launch

    def forget_ahead(self) -> None:
        """Jobs were edited or removed that may have been read ahead."""
        self._read_ahead.clear()

    def forget_numbers(self) -> None:
        """Environments were removed, and their numbers will be given again."""
        self._last_environment = _NO_ENVIRONMENT
        self._similar.clear()

    def _fields(
        self,
        body: str,
        name: str | None,
        user: str,
        kind: str,
        requires: str,
        environment: int,
        *code: Any,
    ) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.json.decode(body)
        fields["argv"] = tuple(fields.get("argv", ()))
        fields["cluster_options"] = tuple(fields.get("cluster_options", ()))
        fields["env"], fields["umask"] = self._environment(environment)
        fields |= {"name": name, "user": user, "kind": kind}
        fields["code"] = None if code[0] is None else Code(*code)
        return fields | {"requires": requirements_from(requires)}

    def _environment(self, number: int) -> tuple[dict[str, str], int | None]:
        """The environment that was kept, and its umask; a submission's jobs start with the same."""
        if self._last_environment[0] != number:
            query = self._sql["environment"]
            row = self._connection.execute(query, {"number": number}).fetchone()
            env: dict[str, str] = msgspec.json.decode(zlib.decompress(row[0]))
            self._last_environment = (number, (env, row[1]))
        return self._last_environment[1]
