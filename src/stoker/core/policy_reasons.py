"""What the policy has to do with a job's wait, where it is not just the order of submission."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.core.reasons import Reason


@dataclass(frozen=True, slots=True)
class ShortestFirst:
    """Others go before it, most of them since they should take less GPU time."""

    ahead: int
    expected_ms: int  # the GPU time that it should take itself
    first_at_ms: int  # no job that comes from then on goes before it
    then: Reason


@dataclass(frozen=True, slots=True)
class FairShares:
    """Others go before it, most of them of groups that have used less of late."""

    ahead: int
    group: str | None
    used_ms: int  # the GPU time that its group has used of late
    then: Reason


PolicyReason = ShortestFirst | FairShares


def policy_words(reason: PolicyReason, now_ms: int, duration: Callable[[int], str]) -> str:
    """The reason in words, but for what it waits for in the end."""
    jobs = "1 job" if reason.ahead == 1 else f"{reason.ahead} jobs"
    verb = "goes" if reason.ahead == 1 else "go"
    if isinstance(reason, FairShares):
        whose = "jobs without a group have" if reason.group is None else f"group {reason.group} has"
        used = f"{whose} used {duration(reason.used_ms)} of GPU time of late"
        return f"fair shares: {used}, and {jobs} {verb} first"
    left_ms = reason.first_at_ms - now_ms
    until = f"at the latest in {duration(left_ms)}" if left_ms > 0 else "from now on"
    ahead = f"{jobs} with less expected GPU time or a longer wait {verb} first"
    return f"shortest first: {ahead}; {until} no new job does"
