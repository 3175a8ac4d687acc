"""GPUPeasy's `startserver.py` and `startgui.py`: the daemon, and the page."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.api.client import Client
from stoker.cli.main import main as stoker
from stoker.compat.refusals import refused
from stoker.errors import StokerError
from stoker.text.terminal import say


def start_server(gpus: str | Iterable[object] = "0-3") -> int:
    """Start the daemon, on these GPUs unless it knows of others already.

    A list is taken as its devices were there: "0" is a GPU, "0,1" or ["0", "1"] a pair, "" a place
    for jobs without a GPU. All GPUs are declared; a job that wants a pair, or none, says so itself.
    """
    if not isinstance(gpus, str):
        gpus, said = _declared(gpus)
        if said:
            say(f"stoker: {said}")
    try:
        with Client() as client:
            known = client.call("gpus")["gpus"]
            if gpus and not known:
                client.call("config_set", name="gpus", value=gpus)
    except StokerError as error:
        return refused("stoker", error)
    return stoker(["daemon", "status"])


def _declared(entries: Iterable[object]) -> tuple[str, str]:
    """The GPUs of a list of devices, and what its user should know."""
    devices = [
        ",".join(map(str, one)) if isinstance(one, list | tuple) else str(one).strip()
        for one in entries
    ]
    ids = dict.fromkeys(part.strip() for one in devices for part in one.split(",") if part.strip())
    said = []
    widest = max((one.count(",") + 1 for one in devices), default=1)
    if widest > 1:
        said.append(f"jobs that want {widest} GPUs say so: stoker add --gpus {widest}")
    if "" in devices:
        said.append("jobs that want none run on CPU slots: stoker add --gpus 0")
    return ",".join(ids), "; ".join(said)


def start_gui(host: str | None = None, port: int | None = None) -> int:
    """Serve the page, by default on 127.0.0.1:4004, and print a login link."""
    words = ["web"]
    for option, value in (("--host", host), ("--port", port)):
        if value is not None:
            words += [option, str(value)]
    return stoker(words)
