"""GPUPeasy's `startserver.py` and `startgui.py`: the daemon, and the page."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.api.client import Client
from stoker.cli.main import main as stoker
from stoker.compat.refusals import refused
from stoker.errors import StokerError, UsageError
from stoker.quantities import declared_gpus
from stoker.text.terminal import say


def start_server(gpus: str | Iterable[object] = "0-3") -> int:
    """Start the daemon, on these GPUs unless others were declared already.

    Where a driver shows GPUs, those of them that are named here are used.

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
            if gpus and not any(gpu["declared"] for gpu in known):
                shown = [gpu["id"] for gpu in known if gpu["uuid"]]
                client.call("config_set", name="gpus", value=_shown(gpus, shown) if shown else gpus)
    except StokerError as error:
        return refused("stoker", error)
    return stoker(["daemon", "status"])


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
