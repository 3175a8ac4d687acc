"""What a shell can offer that only the daemon knows: jobs, groups, sweeps, settings, GPUs."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import Json
from stoker.errors import StokerError
from stoker.text.jobs import counts_text, in_order
from stoker.text.terminal import clipped, escaped

_MOST_JOBS = 200
_MOST_LETTERS = 50


def offered(kind: str) -> list[tuple[str, str]]:
    """The words of a kind, each with what it is; none if there is no daemon to ask."""
    try:
        # A press of Tab starts no daemon, and shows no messages.
        with Client(autostart=False) as client:
            found = OFFERS[kind](client)
    except StokerError:
        return []
    return [(word, clipped(escaped(about), _MOST_LETTERS)) for word, about in found]


def _jobs(client: Client) -> list[tuple[str, str]]:
    jobs = client.call("list", limit=_MOST_JOBS)["jobs"]
    found = [(str(job["id"]), f"{job['state']}: {job['name'] or job['command']}") for job in jobs]
    return [*found, ("last", "the newest job")] if found else []


def _filters(client: Client) -> list[tuple[str, str]]:
    """Ids, and the words of filters whose values are known."""
    status = client.call("status", limit=1)
    states = [
        (f"state:{state}", f"{n} job{'' if n == 1 else 's'}")
        for state, n in in_order(status["counts"]).items()
    ]
    groups = [(f"group:{_as_value(group)}", about) for group, about in _groups(client)]
    gpus = [(f"gpu:{gpu['id']}", gpu.get("name") or "") for gpu in status["gpus"]]
    return [*_jobs(client), *states, *groups, *gpus, ("since:1h", "queued, started or ended since")]


def _as_value(text: str) -> str:
    """As the value of a filter's word."""
    return f'"{text}"' if set(text) & set(" ,") else text


def _names(client: Client) -> list[tuple[str, str]]:
    """Of several jobs with one name, the newest is described."""
    jobs = client.call("list", limit=_MOST_JOBS)["jobs"]
    named = [job for job in jobs if job["name"]]
    return list({job["name"]: f"job {job['id']}, {job['state']}" for job in named}.items())


def _groups(client: Client) -> list[tuple[str, str]]:
    return [_with_counts(one, "group") for one in client.call("groups")["groups"]]


def _sweeps(client: Client) -> list[tuple[str, str]]:
    return [_with_counts(one, "sweep") for one in client.call("sweeps")["sweeps"]]


def _with_counts(one: Json, key: str) -> tuple[str, str]:
    return one[key], counts_text(one["counts"])


def _settings(client: Client) -> list[tuple[str, str]]:
    return [(one["name"], one["help"]) for one in client.call("config_get")["settings"]]


def _gpus(client: Client) -> list[tuple[str, str]]:
    return [(one["id"], one.get("name") or "") for one in client.call("gpus")["gpus"]]


OFFERS = {
    "jobs": _jobs, "filters": _filters, "names": _names, "groups": _groups, "sweeps": _sweeps,
    "settings": _settings, "gpus": _gpus,
}  # fmt: skip
