"""The stand-in for a daemon hears all that it was sent."""

from __future__ import annotations

import socket
from pathlib import Path

from unit.scripted_daemon import ScriptedDaemon
from waiting import eventually


def test_what_was_sent_is_heard_although_who_sent_it_has_left(tmp_path: Path) -> None:
    with ScriptedDaemon(tmp_path, {"one": {}, "two": {}, "three": {}}) as daemon:
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(tmp_path / "stoker.sock"))
        client.sendall(b'{"op": "one"}\n{"op": "two"}\n{"op": "three"}\n')
        client.close()
        eventually(lambda: len(daemon.requests) == 3, "all of it is heard", 10)
