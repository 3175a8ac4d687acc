"""Where waiting jobs stand in the line and when they should start, for a table on a terminal."""

from __future__ import annotations

from stoker.text import duration_text
from stoker.text.jobs import FINAL_STATES, now_ms, rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.api.client import Client
    from stoker.text.jobs import Job

# To look ahead is to run the queue forward; a table must not wait for a long one.
_MOST_UNFINISHED = 200


def places(client: Client, jobs: list[Job], unfinished: int) -> dict[int, str]:
    """What to say of each waiting job: "3, in 40m"; without what is not known.

    `unfinished`: how many such jobs there are. A place is told only if all of them are here.
    """
    waiting = sorted((job for job in jobs if job["state"] == "waiting"), key=rank)
    if unfinished > _MOST_UNFINISHED:
        return {}
    answer = client.call("forecast", limit=_MOST_UNFINISHED)
    starts = {start["id"]: start["starts_at_ms"] for start in answer["starts"]}
    is_whole = unfinished == sum(job["state"] not in FINAL_STATES for job in jobs)
    found = {}
    for place, job in enumerate(waiting, 1):
        words = [str(place)] if is_whole else []
        if job["id"] in starts:
            in_ms = starts[job["id"]] - now_ms()
            words.append(f"in {duration_text(in_ms).split()[0]}")
        found[job["id"]] = ", ".join(words)
    return found
