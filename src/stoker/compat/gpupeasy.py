"""GPUPeasy's `startserver.py` and `startgui.py`: the daemon, and the page."""

from __future__ import annotations

from stoker.compat.loading import Loading

with Loading():
    from collections.abc import Iterable
    from typing import Any

    from stoker.api.client import Client
    from stoker.cli.main import INTERRUPTED
    from stoker.cli.main import main as stoker
    from stoker.compat.refusals import refused
    from stoker.errors import StokerError, UsageError
    from stoker.quantities import declared_gpus
    from stoker.text.terminal import say


def start_server(gpus: str | Iterable[object] = "0-3") -> int:
    """Start the daemon, on these GPUs unless others were declared already; its exit code.

    Where a driver shows GPUs, those of them that are named here are used.

    A list is taken as its devices were there: "0" is a GPU, "0,1" or ["0", "1"] a pair, "" a place
    for jobs without a GPU. All GPUs are declared; a job that wants a pair, or none, says so itself.
    """
    try:
        if not isinstance(gpus, str):
            gpus, said = _declared(gpus)
            if said:
                say(f"stoker: {said}")
        with Client() as client:
            status = client.call("status")
            if any(gpu["uuid"] for gpu in status["gpus"]):
                if gpus:
                    _choose(client, gpus, status)
            elif gpus and not any(gpu["declared"] for gpu in status["gpus"]):
                client.call("config_set", name="gpus", value=gpus)
    except StokerError as error:
        return refused("stoker", error)
    except KeyboardInterrupt:
        return INTERRUPTED
    return stoker(["daemon", "status"])


def _choose(client: Client, gpus: str, status: dict[str, Any]) -> None:
    """Use these of all GPUs that the driver shows, also those that are not used so far."""
    used = ",".join(gpu["id"] for gpu in status["gpus"] if gpu["state"] != "removing")
    # Only GPUs in use are listed, so all of them are for a moment; nothing must start on them.
    if not status["paused"]:
        client.call("pause")
    try:
        client.call("config_set", name="gpus", value="auto")
        try:
            shown = [gpu["id"] for gpu in client.call("gpus")["gpus"]]
            used = _shown(gpus, shown)
        finally:
            client.call("config_set", name="gpus", value=used)
    finally:
        if not status["paused"]:
            client.call("resume")


def _shown(gpus: str, shown: list[str]) -> str:
    """Those of the GPUs that the driver shows."""
    named = [gpu for gpu, _ in declared_gpus(gpus)]
    used = [gpu for gpu in named if gpu in shown]
    if not used:
        raise UsageError(
            f"the driver shows no GPU {', '.join(named)}", f"there are {', '.join(shown)}"
        )
    if len(used) < len(named):
        say(f"stoker: the driver shows {len(used)} of the {len(named)} GPUs, which are used")
    return ",".join(used)


def _declared(entries: object) -> tuple[str, str]:
    """The GPUs of a list of devices, and what its user should know."""
    if not isinstance(entries, Iterable):
        what = f"gpus={entries!r} is no list of GPUs"
        raise UsageError(what, 'write e.g. gpus="0-3" or gpus=["0"]')
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
