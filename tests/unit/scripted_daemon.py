"""A socket that answers as it was told to, for what the real daemon can't be made to say at will.

It speaks the real protocol over a real socket, and keeps every request that it was sent.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from waiting import PATIENCE_S

Answer = dict[str, Any]
Script = Mapping[str, Answer | Callable[[Answer], Answer | Iterable[Answer]]]

# To close the connection instead would have some clients ask again and again.
_NOT_IN_THE_SCRIPT: Answer = {
    "ok": False,
    "error": {"code": "failed", "message": "this is not in the script", "hint": ""},
}
GONE: Answer = {"gone": True}  # Instead of an answer, the connection is closed.
# {"raw": b"..."} is sent as it is.


class ScriptedDaemon:
    """Listens in a home of its own; use it as a context."""

    def __init__(self, home: Path, script: Script) -> None:
        self.home = home
        self.script = script
        self.requests: list[Answer] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> ScriptedDaemon:
        path = self.home / "stoker.sock"
        path.unlink(missing_ok=True)
        # A path may be too long for the kernel, so the socket is bound from within its directory.
        fd = os.open(self.home, os.O_PATH)
        self._listener.bind(f"/proc/self/fd/{fd}/stoker.sock")
        os.close(fd)
        self._listener.listen()
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        (self.home / "stoker.sock").unlink(missing_ok=True)
        for sock in (self._listener, *self._connections):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def sent(self, op: str) -> list[Answer]:
        """The requests of one kind, without their `op`."""
        return [
            {key: value for key, value in request.items() if key != "op"}
            for request in list(self.requests)
            if request["op"] == op
        ]

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    request = json.loads(line)
                    self.requests.append(request)
                    scripted = self.script.get(request["op"], _NOT_IN_THE_SCRIPT)
                    answers = scripted(request) if callable(scripted) else scripted
                    for answer in [answers] if isinstance(answers, dict) else answers:
                        if answer is GONE:
                            connection.shutdown(socket.SHUT_RDWR)
                            return
                        _send(connection, answer)
        except OSError:
            return


def _send(connection: socket.socket, answer: Answer) -> None:
    reply = answer if "ok" in answer else {"ok": True, **answer}
    data = answer["raw"] if "raw" in answer else json.dumps(reply).encode() + b"\n"
    try:
        connection.sendall(data)
    except OSError:
        pass  # Who does not wait for the answer may have said more before it left.


def job(job_id: int, state: str = "running", **fields: Any) -> Answer:
    """A job as the daemon shows it."""
    view: Answer = {
        "id": job_id, "name": None, "state": state, "reason": None, "exit_code": None,
        "signal": None, "gpus": [], "command": "python train.py", "argv": ["python", "train.py"],
        "shell": None, "cwd": "/data", "group": None, "priority": 0, "user": "ada", "attempt": 1,
        "pid": None,
        "need": {"gpus": 1, "share": None, "mem_mib": None, "exclusive": False, "on": [],
                 "prefer": [], "cpus": 0, "max_per_gpu": None},
        "after": [], "after_any": [], "time_limit_ms": None, "grace_ms": 30000,
        "signal_spec": None, "retries": 0, "not_before_ms": None,
        "submitted_at_ms": 1_773_144_000_000, "started_at_ms": None, "ended_at_ms": None,
        "log": None, "err_log": None,
    }  # fmt: skip
    return view | fields
