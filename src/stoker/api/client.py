"""The plain client: JSON lines to the daemon's socket, and back.

Nothing slow is imported: this is on the path of every command. The daemon is started when it is
not there, unless the caller forbids it.
"""

from __future__ import annotations

import _socket
import os
import sys

import stoker
from stoker.api.jsonline import dumps, loads
from stoker.api.paths import PROTOCOL, Home, socket_address
from stoker.errors import Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

ANSWER_TIMEOUT_S = 120.0
_LOOK_AFTER_S = 1.5

_MANY = 2_000  # jobs in one submission
_OWN_VERSION = f"{PROTOCOL} {stoker.__version__}\n".encode()

# These only ask, or say the same again if they are given twice, so that they may be repeated if
# the daemon goes away before it has answered.
_MOST_REPEATS = 5
_SAFE_TO_REPEAT = frozenset((
    "list", "browse", "related", "attempts", "usage", "forecast", "sweeps", "sweep_points",
    "sweep_table", "groups", "show", "why", "status", "gpus", "config_get", "hello", "wait",
    "points", "metrics", "curve", "curves", "searches", "search_start", "search_told",
))  # fmt: skip


class ConnectionLost(Unreachable):
    """The daemon went away before it answered: whether it took the request is not known."""


class NoAnswerYet(Unreachable):
    """Nothing came within the time that the caller gave."""


def line_of(op: str, fields: dict[str, Any]) -> bytes:
    """An order as it is sent."""
    message = {**fields, "op": op}
    if len(fields.get("each") or ()) > _MANY:
        # To import this takes as long as the plain way takes for so many jobs.
        from stoker.api.fast_json import dumped

        try:
            return dumped(message) + b"\n"
        except (TypeError, ValueError):
            pass  # The plain way knows how to complain.
    return dumps(message).encode() + b"\n"


class Client:
    """One connection to the daemon of one home."""

    def __init__(
        self, home: Home | None = None, *, autostart: bool = True, any_version: bool = False
    ) -> None:
        self.home = home or Home.from_environment()
        self.autostart = autostart
        self._any_version = any_version  # it says only what daemons of all versions understand
        self._socket: _socket.socket | None = None
        self._received = b""  # the line that has not ended yet
        self._lines: list[bytes] = []  # those that have, the last first
        self._warned: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- the connection ---

    def connect(self) -> None:
        """Connect, starting the daemon if there is none and that is allowed."""
        if self._socket is not None:
            return
        self._reach()
        if not self._any_version:
            self._compare_versions()

    def _compare_versions(self) -> None:
        """Refuse a daemon that would misunderstand; tell, once, of one that is out of date."""
        try:
            fd = os.open(self.home.version, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        said = os.read(fd, 200)
        os.close(fd)
        if said != _OWN_VERSION:
            from stoker.api.skew import compare
            from stoker.errors import Unavailable

            try:
                compare(said.decode(errors="replace"), self.home)
            except Unavailable:
                self.close()
                raise

    def _reach(self) -> None:
        if self._try_to_connect():
            return
        if self.autostart:
            from stoker.api.launch import start_daemon

            start_daemon(self.home)
            if self._try_to_connect():
                return
        elif self._connects_soon():
            return
        raise self._unreachable("the daemon is not running")

    def _connects_soon(self) -> bool:
        """Wait for a daemon that has the lock: it begins, ends, or makes its socket anew."""
        import time

        from stoker.api.claim import check
        from stoker.api.holder import LOOK_AFTER_S, holder, trouble

        deadline = time.monotonic() + LOOK_AFTER_S
        while (pid := holder(self.home)) is not None:
            if self._try_to_connect():
                return True
            check(self.home)  # It may be on another machine, where it can't be reached from here.
            if time.monotonic() > deadline:
                raise trouble(pid, self.home)
            time.sleep(0.02)
        return self._try_to_connect()

    def _try_to_connect(self) -> bool:
        sock: _socket.socket | None = None
        directory_fd = -1
        try:
            sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
            address, directory_fd = socket_address(self.home.socket)
            sock.connect(address)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            assert sock is not None
            sock.close()
            return False
        except OSError as error:
            if sock is not None:
                sock.close()
            raise self._unreachable(
                f"can't connect to {self.home.socket}: {error.strerror}"
            ) from None
        finally:
            if directory_fd >= 0:
                os.close(directory_fd)
        self._socket = sock
        self._received = b""
        self._lines.clear()
        return True

    def close(self) -> None:
        """Leave the daemon; the next order connects again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def fileno(self) -> int:
        """For poll: readable when the daemon has said something, or has gone."""
        return -1 if self._socket is None else self._socket.fileno()

    # --- orders and answers ---

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """One order and its answer; an error that the daemon reports is raised.

        An order that is cut off is given again if that can't do harm: a question, or a submission
        that the daemon knows by its token.
        """
        repeatable = op in _SAFE_TO_REPEAT or fields.get("token") is not None
        for _ in range(_MOST_REPEATS if repeatable else 0):
            try:
                return self._call_once(op, fields)
            except ConnectionLost:
                pass
        return self._call_once(op, fields)

    def _call_once(self, op: str, fields: dict[str, Any]) -> dict[str, Any]:
        self.send(op, **fields)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The answer to a request that was sent; the wait for it is bounded."""
        left_s = ANSWER_TIMEOUT_S
        while left_s > 0:
            try:
                return self.receive(_LOOK_AFTER_S)
            except NoAnswerYet:
                left_s -= _LOOK_AFTER_S
                self._look_at_daemon()
        self.close()
        raise self._unreachable(
            f"the daemon has not answered for {ANSWER_TIMEOUT_S:.0f} s; "
            "it may still carry out the request"
        )

    def peer_pid(self) -> int:
        """The daemon's process; 0 if it can't be seen from this PID namespace."""
        assert self._socket is not None
        who = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        return int.from_bytes(who[:4], sys.byteorder)

    def _look_at_daemon(self) -> None:
        """Give up on one that is stopped: it would answer only when it is continued."""
        from stoker.api.holder import is_stopped, trouble

        pid = self.peer_pid()
        if is_stopped(pid):
            self.close()
            raise trouble(pid, self.home)

    def send(self, op: str, **fields: Any) -> None:
        """Send an order without waiting for its answer."""
        self.send_line(line_of(op, fields))

    def send_line(self, line: bytes) -> None:
        """The same for an order that is written already."""
        self.connect()
        assert self._socket is not None
        # A stopped daemon must not hang its clients for ever, in this direction either.
        self._socket.settimeout(ANSWER_TIMEOUT_S)
        try:
            self._socket.sendall(line)
        except TimeoutError:
            self.close()
            raise self._unreachable("the daemon accepts no requests") from None
        except OSError:
            # It may have said why before it closed the connection; else it is simply gone.
            pass

    def receive(self, timeout_s: float | None = None) -> dict[str, Any]:
        """The next line from the daemon; `NoAnswerYet` if the time passes first."""
        line = self._line(timeout_s)
        try:
            answer = loads(line.decode())
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.close()
            raise self._unreachable("the daemon's answer can't be understood")
        if not answer.get("ok"):
            from stoker.api.skew import explained
            from stoker.errors import from_wire

            raise explained(from_wire(answer.get("error") or {}))
        for text in answer.get("warnings", ()):
            if text not in self._warned:  # Once is enough for a thousand jobs.
                self._warned.add(text)
                self.warn(text)
        return answer

    def warn(self, text: str) -> None:
        """Tell the user what the daemon said beside its answer."""
        os.write(2, f"stoker: {text}\n".encode())

    def has_line(self) -> bool:
        """Whether a whole line has arrived already, so that poll would wait in vain."""
        return bool(self._lines)

    def _line(self, timeout_s: float | None) -> bytes:
        if self._socket is None:
            raise self._lost()
        if self._lines:
            return self._lines.pop()
        self._socket.settimeout(timeout_s)
        chunks = [self._received]
        while b"\n" not in chunks[-1]:
            try:
                chunk = self._socket.recv(262_144)
            except (TimeoutError, BlockingIOError):
                self._received = b"".join(chunks)
                raise NoAnswerYet("the daemon has not answered yet") from None
            except KeyboardInterrupt:
                self._received = b"".join(chunks)
                raise
            except OSError:
                chunk = b""
            if not chunk:
                self.close()
                raise self._lost()
            chunks.append(chunk)
        *self._lines, self._received = b"".join(chunks).split(b"\n")
        self._lines.reverse()
        return self._lines.pop()

    # --- what to say when it fails ---

    def _unreachable(self, message: str) -> Unreachable:
        return Unreachable(message, f"try `stoker daemon start`; its log is {self.home.log}")

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(
            "the daemon went away before it answered",
            f"see `stoker ls` for what it did; its log is {self.home.log}",
        )
