"""Where waiting jobs stand in the line and when they should start, for a table on a terminal."""

from __future__ import annotations

from stoker.text import duration_text
from stoker.text.jobs import now_ms, rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.api.client import Client
    from stoker.text.jobs import Job

# To look ahead is to run the queue forward; a table must not wait for a long one.
_MOST_UNFINISHED = 200
_MOST_PLACES = 1_000  # that are asked for: a longer table is not read on a terminal


def places(client: Client, jobs: list[Job]) -> dict[int, str]:
    """What to say of each waiting job of a list: "3, in 40m"; without what is not known.

    The daemon tells the places: the list may lack jobs that come before those in it.
    """
    waiting = sorted((job for job in jobs if job["state"] == "waiting"), key=rank)[:_MOST_PLACES]
    ids = [job["id"] for job in waiting]
    answer = client.call(
        "forecast", limit=_MOST_UNFINISHED, places_of=ids, most_unfinished=_MOST_UNFINISHED
    )
    starts = {start["id"]: start["starts_at_ms"] for start in answer["starts"]}
    found = {}
    for job_id, place in zip(ids, answer["places"], strict=True):
        words = [] if place is None else [str(place)]
        if job_id in starts:
            in_ms = starts[job_id] - now_ms()
            words.append(f"in {duration_text(in_ms).split()[0]}")
        found[job_id] = ", ".join(words)
    return found
