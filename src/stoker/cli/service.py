"""The systemd user unit that keeps the daemon running."""

from __future__ import annotations

import os
import sys

from stoker.api.paths import Home
from stoker.errors import Failed
from stoker.wholefile import write_whole

_UNIT = """\
[Unit]
Description=Stoker, the GPU job scheduler

[Service]
Type=simple
ExecStart={command} daemon run
{environment}# Only this process is stopped with the service: jobs that run go on.
KillMode=process
Restart=on-failure
RestartSec=2

[Install]
WantedBy=default.target
"""


def unit_text() -> str:
    """The unit, for the program and the home of now."""
    environment = ""
    if os.environ.get("STOKER_HOME"):
        environment = f"Environment={_quoted('STOKER_HOME=' + Home.from_environment().root)}\n"
    return _UNIT.format(command=_program(), environment=environment)


def _program() -> str:
    """How to run `stoker` from anywhere."""
    script = os.path.abspath(sys.argv[0])
    if os.path.basename(script) == "stoker" and os.access(script, os.X_OK):
        return _quoted(script)
    return f"{_quoted(sys.executable)} -m stoker"


def _quoted(text: str) -> str:
    """Text for a unit file: percent signs are specifiers there, and words end at spaces."""
    text = text.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{text}"' if any(c in text for c in " \t'\"\\;") else text


def unit_path() -> str:
    """Where the user's units are."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(config):
        config = os.path.expanduser("~/.config")
    return os.path.join(config, "systemd", "user", "stoker.service")


def install(*, force: bool) -> str:
    """Write the unit and give its path."""
    path, text = unit_path(), unit_text()
    try:
        with open(path, encoding="utf-8") as file:
            present: str | None = file.read()
    except FileNotFoundError:
        present = None
    if present not in (None, text) and not force:
        raise Failed(
            f"{path} exists already and differs", "check it, then use --force to overwrite it"
        )
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_whole(path, text.encode(), 0o666)
    return path
