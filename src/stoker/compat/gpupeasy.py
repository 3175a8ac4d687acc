"""GPUPeasy's `startserver.py` and `startgui.py`: the daemon, and the page."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.main import main as stoker
from stoker.errors import StokerError
from stoker.text.terminal import say


def start_server(gpus: str = "0-3") -> int:
    """Start the daemon, on these GPUs unless it knows of others already."""
    try:
        with Client() as client:
            if not client.call("gpus")["gpus"]:
                client.call("config_set", name="gpus", value=gpus)
    except StokerError as error:
        say(f"stoker: {error.message}" + (f"; {error.hint}" if error.hint else ""))
        return error.exit_code
    return stoker(["daemon", "status"])


def start_gui(host: str | None = None, port: int | None = None) -> int:
    """Serve the page, by default on 127.0.0.1:4004, and print a login link."""
    words = ["web"]
    for option, value in (("--host", host), ("--port", port)):
        if value is not None:
            words += [option, str(value)]
    return stoker(words)
