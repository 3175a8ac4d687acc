"""What is known of a job that was just queued: its place, its start and its run time."""

from __future__ import annotations

import sys

from stoker.errors import StokerError
from stoker.text import duration_text
from stoker.text.jobs import now_ms
from stoker.text.terminal import has_terminal, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.api.client import Client
    from stoker.text.jobs import Job

_WITHIN_S = 0.5
# To look ahead is to run the queue forward; a prompt must not wait for a long one.
_MOST_UNFINISHED = 200
# The kinds of reasons (docs/json.md) of a job that starts as soon as there is room for it.
_WAITS_FOR_ITS_TURN = frozenset(
    ("GroupIsFull", "NeedsGpus", "NeedsMemory", "NeedsUse", "WaitsForScout", "NeedsShare",
     "NeedsCpus", "HeldBack", "ClusterIsFull", "AtCluster", "IsNext")
)  # fmt: skip


def tell(client: Client, ids: list[int], args: dict[str, object]) -> None:
    """Say on stderr what is known of the first of these jobs, if a user is there to read it.

    The jobs are queued: whatever goes wrong here is no trouble of theirs.
    """
    if not ids or args.get("json") or not (has_terminal() and has_terminal(sys.stderr)):
        return
    try:
        client.send("why", select={"ids": [str(ids[0])]}, most_unfinished=_MOST_UNFINISHED)
        [job] = client.receive(_WITHIN_S)["jobs"]
    except (StokerError, ValueError):
        return
    finally:
        client.close()  # An answer that is late must not be taken for another.
    say(sentence(job, len(ids), now_ms()))


def sentence(job: Job, count: int, now: int) -> str:
    """Its place, start and run time, as far as they are known; else why it waits."""
    words = []
    starts, ahead = job.get("starts_at_ms"), job.get("jobs_ahead")
    kind = (job.get("reason") or {}).get("kind")
    # Of a job that waits for its turn, place and start say enough; of others they do not.
    barred = kind is not None and kind not in _WAITS_FOR_ITS_TURN
    if kind == "WaitsForTime" and starts is not None:
        barred = False
    if ahead:
        words.append("1 job ahead" if ahead == 1 else f"{ahead} jobs ahead")
    if starts is not None and starts - now < 1_000:
        words.append("starts now")
    elif starts is not None:
        words.append(f"starts in about {_about(starts - now)}")
    if not words and not barred:
        words.append((job.get("text") or job["state"]).removeprefix("it is "))
    if job.get("learned_from"):
        runs = "1 run" if job["learned_from"] == 1 else f"{job['learned_from']} runs"
        words.append(f"runs about {_about(job['run_ms'])} (learned from {runs})")
    which = f"job {job['id']}" + (f", the first of {count}" if count > 1 else "")
    known = [", ".join(words)] if words else []
    return f"{which}: {'; '.join([*known, job['text']] if barred else known)}"


def _about(duration_ms: int) -> str:
    """A duration without what an estimate can't promise: "3s", "40m", "2h 05m"."""
    unit_ms = 60_000 if duration_ms >= 600_000 else 1_000
    rounded_ms = max(round(duration_ms / unit_ms) * unit_ms, 1_000)
    first, _, second = duration_text(rounded_ms).partition(" ")
    return first if second.startswith("00") else f"{first} {second}".strip()
