"""Ids of jobs in words: few, however many there are."""

from __future__ import annotations


def id_list(ids: list[int]) -> str:
    """Ids in words: "job 7", "jobs 7, 8, 9", "jobs 3-90"."""
    if len(ids) == 1:
        return f"job {ids[0]}"
    return "jobs " + ", ".join(ranges(ids))


def ids_by_reason(ids: dict[str, list[int]]) -> str:
    """What is true of which: "jobs 3-5 (succeeded), job 9 (running)"."""
    return ", ".join(f"{id_list(of)} ({why})" for why, of in ids.items())


def ranges(ids: list[int]) -> list[str]:
    """Ids as few ranges: [3, 4, 5, 9] is ["3-5", "9"]."""
    runs: list[list[int]] = []
    for one in sorted(ids):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs]
