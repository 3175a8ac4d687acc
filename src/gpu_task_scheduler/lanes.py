"""Where test instances may run: what the entries of `gpu` mean as needs of jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_NO_GPU = ("", "-1")  # what people write into CUDA_VISIBLE_DEVICES to hide all GPUs


@dataclass(frozen=True)
class Lane:
    """A place for test instances, so many at a time (None: as many as there are)."""

    fields: dict[str, Any]
    width: int | None
    entries: tuple[str, ...] = field(default=(), compare=False)  # of `gpu`: those it stands for


def lanes(entries: list[str]) -> list[Lane]:
    """The lanes that the entries of `gpu` stand for.

    Single GPUs are one lane for all, and Stoker hands them out as they become free. Otherwise
    each entry is a lane, since no need says "either these two or those two". A GPU that is named
    n times on its own is shared by n instances.
    """
    split = [_ids(entry) for entry in entries]
    times: Counter[tuple[str, ...]] = Counter(ids for ids in split if len(ids) == 1)
    if split and all(len(ids) == 1 for ids in split) and max(times.values()) == 1:
        everywhere = [ids[0] for ids in split]
        fields = {"gpus": 1, "on": everywhere, "prefer": everywhere}
        return [Lane(fields, None, tuple(entries))]
    return [
        Lane(_fields(ids, times[ids]), 1, (entry,))
        for ids, entry in zip(split, entries, strict=True)
    ]


def _fields(ids: tuple[str, ...], times: int) -> dict[str, Any]:
    if not ids:
        return {"gpus": 0}
    if times > 1:
        return {"share": 1000 // times / 1000, "on": list(ids)}
    return {"gpus": len(ids), "on": list(ids), "prefer": list(ids)}


def _ids(entry: str) -> tuple[str, ...]:
    if entry.strip() in _NO_GPU:
        return ()
    return tuple(dict.fromkeys(part.strip() for part in entry.split(",")))
