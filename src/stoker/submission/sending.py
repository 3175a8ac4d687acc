"""A submission sent to the daemon."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.api.client import Client


def submit(client: Client, request: dict[str, Any], **more: Any) -> int:
    """Send a submission of one job, and give the job's id."""
    resolve_requirements(client, request["jobs"][0])
    job_id: int = client.call("submit", **request, **more)["ids"][0]
    return job_id


def resolve_requirements(client: Client, job: dict[str, Any]) -> None:
    """Ranges and `last` mean what they mean now; a job depends on other jobs by number."""
    for key in ("after", "after_any"):
        required = job.get(key)
        if required and not all(one.isdigit() for one in required):
            found = client.call("list", select={"ids": required}, all=True)["jobs"]
            job[key] = [str(one["id"]) for one in found]
