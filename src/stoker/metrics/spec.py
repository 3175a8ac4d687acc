"""Which attempt is to be read, and where its metrics may be: what the daemon tells the reader."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stoker.output_files import filled, with_params

Key = tuple[int, int]  # job and attempt


@dataclass(frozen=True, slots=True)
class Spec:
    """Which attempt, where its metrics may be, and whether it has ended."""

    job: int
    attempt: int
    log: str | None = None
    err: str | None = None
    folder: str | None = None  # that of --metrics-from
    reports: Sequence[str] = ()
    patterns: Sequence[str] = ()  # those of --metric
    far: bool = False  # It runs on a cluster, so its files are read less often.
    ended: bool = False
    after: int | None = None  # the attempt that was put back, with which this one goes on

    @property
    def key(self) -> Key:
        """What it is known by."""
        return self.job, self.attempt

    def to_wire(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def said(self) -> str:
        """All that decides what is found: if it has changed, everything is read anew."""
        return json.dumps([self.log, self.err, self.folder, list(self.reports), self.patterns])


def run_of(attempt: int, put_back: Collection[int]) -> list[int]:
    """The attempts of one run: this one, and those before it that were put back, the first first.

    `put_back`: the numbers of the job's attempts after which it went on.
    """
    first = attempt
    while first - 1 in put_back:
        first -= 1
    return list(range(first, attempt + 1))


def folder_of(
    said: str | None, cwd: str, key: Key, name: str | None, params: Mapping[str, Any]
) -> str | None:
    """The file or directory of --metrics-from; of the point of a sweep also by its parameters."""
    if said is None:
        return None
    path = with_params(filled(said, key[0], name, key[1]), params)
    return os.path.join(cwd, os.path.expanduser(path))
