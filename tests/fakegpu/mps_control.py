"""A stand-in for nvidia-cuda-mps-control: the daemon (-d, -f), and the front end that reads stdin.

It keeps to what NVIDIA documents: one daemon a pipe directory, a server that starts with the first
client, commands one a line with their answers on stdout, an exit status that tells only whether
the daemon could be reached. A client that dies in the middle of its work without having been
ended by `terminate_client` faults the server and takes down whoever shares it; the server takes
new clients again when all of these are gone.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fakegpu.driver import FakeDriver

SERVER_MIB = 30
_END = b"\0"  # Ends an answer to the front end; what clients hear needs none.
_PR_SET_PDEATHSIG = 1


def pipe_dir() -> Path:
    """Where the daemon of this environment is found."""
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))


def log_dir() -> Path:
    """Where it writes its logs."""
    return Path(os.environ.get("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps"))


# ---------------------------------------------------------------------- the daemon


@dataclass(eq=False)
class Peer:
    """A connection: of a CUDA program, or of a front end."""

    socket: socket.socket
    pid: int
    unread: bytes = b""
    is_client: bool = False
    busy: bool = False
    ended: bool = False  # by terminate_client, so that its death disturbs nobody
    said_goodbye: bool = False


@dataclass(eq=False)
class Server:
    """The process that shares a GPU among its clients."""

    pid: int
    uid: int
    thread_percentage: float
    status: str = "ACTIVE"
    clients: list[Peer] = field(default_factory=list)


class ControlDaemon:
    """One loop over connections; there is at most one server, since there is one user."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.thread_percentage = 100.0
        self.quitting: list[Peer] | None = None  # the front ends that wait for the end
        self.force_at_s: float | None = None
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        bind(self.listener, pipe_dir())
        self.listener.listen(64)
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        Path(pipe_dir(), "nvidia-cuda-mps-control.pid").write_text(f"{os.getpid()}\n")

    def run(self) -> None:
        """Serve until told to quit, and until the last client is gone."""
        while not self._may_end():
            timeout_s = None
            if self.force_at_s is not None:
                timeout_s = max(0.0, self.force_at_s - time.monotonic())
            for key, _ in self.selector.select(timeout_s):
                if key.data is None:
                    self._accept()
                else:
                    self._read(key.data)
            if self.force_at_s is not None and time.monotonic() >= self.force_at_s:
                self._stop_server(force=True)
                break
        self._stop_server(force=False)
        for name in ("control", "nvidia-cuda-mps-control.pid"):
            Path(pipe_dir(), name).unlink(missing_ok=True)
        for peer in self.quitting or []:
            peer.socket.sendall(_END)

    def _may_end(self) -> bool:
        return self.quitting is not None and (self.server is None or not self.server.clients)

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        size = struct.calcsize("3i")
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        pid, _, _ = struct.unpack("3i", credentials)
        self.selector.register(connection, selectors.EVENT_READ, Peer(connection, pid))

    def _read(self, peer: Peer) -> None:
        try:
            got = peer.socket.recv(65536)
        except OSError:
            got = b""
        if not got:
            self._gone(peer)
            return
        *lines, peer.unread = (peer.unread + got).split(b"\n")
        for line in lines:
            words = line.decode(errors="replace").split()
            if words:
                self._heard(peer, words)

    def _heard(self, peer: Peer, words: list[str]) -> None:
        match words:
            case ["client", _]:
                self._admit(peer)
            case ["busy"]:
                peer.busy = True
            case ["idle"]:
                peer.busy = False
            case ["bye"]:
                peer.said_goodbye = True
            case ["command", *command]:
                answer = self._command(peer, command)
                if answer is not None:
                    send(peer, "".join(f"{line}\n" for line in answer).encode() + _END)
            case _:
                log("control", f"Unknown message from {peer.pid}")

    # ------------------------------------------------------------------ clients

    def _admit(self, peer: Peer) -> None:
        if self.quitting is not None:
            send(peer, b"not ready\n")
            return
        server = self.server or self._start_server()
        if server.status != "ACTIVE":
            send(peer, b"not ready\n")
            log("control", f"NEW CLIENT {peer.pid} refused: server {server.pid} is in FAULT")
            return
        peer.is_client = True
        server.clients.append(peer)
        log("control", f"Accepting connection from client {peer.pid}, server {server.pid}")
        send(peer, f"ready {server.pid} {server.thread_percentage}\n".encode())

    def _gone(self, peer: Peer) -> None:
        self.selector.unregister(peer.socket)
        peer.socket.close()
        if self.quitting is not None and peer in self.quitting:
            self.quitting.remove(peer)
        server = self.server
        if not peer.is_client or server is None or peer not in server.clients:
            return
        server.clients.remove(peer)
        if peer.busy and not peer.said_goodbye and not peer.ended and server.status == "ACTIVE":
            server.status = "FAULT"
            log("server", f"Client {peer.pid} died while its work was running")
            log("control", f"Server {server.pid}: status changed from ACTIVE to FAULT")
            for other in server.clients:
                send(other, b"fault\n")
        if server.status == "FAULT" and not server.clients:
            server.status = "ACTIVE"
            log("control", f"Server {server.pid}: status changed from FAULT to ACTIVE")

    # ------------------------------------------------------------------ the server

    def _start_server(self) -> Server:
        pid = os.fork()
        if pid == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            name, program = "nvidia-cuda-mps-server", "import signal; signal.pause()"
            os.execv(sys.executable, [name, "-I", "-S", "-c", program])
        server = Server(pid, os.getuid(), self.thread_percentage)
        state = os.environ.get("FAKEGPU_STATE")
        if state is not None:
            driver = FakeDriver(Path(state))
            for device in devices_of(driver, os.environ.get("CUDA_VISIBLE_DEVICES")):
                driver.add_process(device, pid, SERVER_MIB)
        log("control", f"Starting new server {pid} for user {server.uid}")
        self.server = server
        return server

    def _stop_server(self, force: bool) -> None:
        server, self.server = self.server, None
        if server is None:
            return
        if force:
            for client in server.clients:
                send(client, b"fault\n")
        os.kill(server.pid, signal.SIGKILL)
        os.waitpid(server.pid, 0)
        log("control", f"Server {server.pid} exited")

    # ------------------------------------------------------------------ commands

    def _command(self, peer: Peer, words: list[str]) -> list[str] | None:
        """The lines of the answer; None if it comes later."""
        log("control", f"Command: {' '.join(words)}")
        match words:
            case ["get_server_list"]:
                return [str(self.server.pid)] if self.server else []
            case ["start_server", "-uid", uid]:
                if uid != str(os.getuid()):
                    return [f"Cannot start a server for user {uid}"]
                if self.server is None:
                    self._start_server()
                return []
            case ["get_default_active_thread_percentage"]:
                return [str(self.thread_percentage)]
            case ["set_default_active_thread_percentage", text]:
                percentage = percentage_of(text)
                if percentage is None:
                    return [f"Invalid percentage {text}"]
                self.thread_percentage = percentage
                return [str(percentage)]
            case ["quit"]:
                self.quitting = [*(self.quitting or []), peer]
                return None
            case ["quit", "-t", seconds] if seconds.isdigit():
                self.quitting = [*(self.quitting or []), peer]
                self.force_at_s = time.monotonic() + int(seconds)
                return None
            case [verb, pid, *rest] if verb in _OF_SERVER:
                if self.server is None or pid != str(self.server.pid):
                    return [f"Server {pid} not found"]
                return self._server_command(self.server, verb, rest)
        return [f"Unrecognized command: {' '.join(words)}"]

    def _server_command(self, server: Server, verb: str, rest: list[str]) -> list[str]:
        match [verb, *rest]:
            case ["get_server_status"]:
                return [server.status]
            case ["get_client_list"]:
                return [str(client.pid) for client in server.clients]
            case ["get_active_thread_percentage"]:
                return [str(server.thread_percentage)]
            case ["set_active_thread_percentage", text]:
                percentage = percentage_of(text)
                if percentage is None:
                    return [f"Invalid percentage {text}"]
                server.thread_percentage = percentage
                return [str(percentage)]
            case ["terminate_client", pid]:
                for client in server.clients:
                    if str(client.pid) == pid:
                        client.ended = True
                        client.busy = False
                        send(client, b"terminated\n")
                        return []
                return [f"Client {pid} not found"]
            case ["shutdown_server"] | ["shutdown_server", "-f"]:
                if server.clients and not rest:
                    return [f"Server {server.pid} has clients"]
                self._stop_server(force=True)
                return []
        return [f"Unrecognized command: {' '.join([verb, *rest])}"]


_OF_SERVER = {
    "get_server_status",
    "get_client_list",
    "get_active_thread_percentage",
    "set_active_thread_percentage",
    "terminate_client",
    "shutdown_server",
}


def percentage_of(text: str) -> float | None:
    """A number from 0 (excluded) to 100, or nothing."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= 100 else None


def devices_of(driver: FakeDriver, visible: str | None) -> list[int]:
    """The devices that the daemon was started for."""
    with driver.locked() as state:
        present = [(d.domain, d.bus, d.slot, i) for i, d in enumerate(state.devices) if d.present]
        numbers = [number for *_, number in sorted(present)]
        uuids = {state.devices[number].uuid.decode(): number for number in numbers}
    if visible is None:
        return numbers
    found = []
    for entry in visible.split(","):
        if entry.isdigit() and int(entry) < len(numbers):
            found.append(numbers[int(entry)])
        elif entry in uuids:
            found.append(uuids[entry])
        else:
            break
    return found


def send(peer: Peer, data: bytes) -> None:
    """Tell somebody who may be gone."""
    try:
        peer.socket.sendall(data)
    except OSError:
        pass


def log(name: str, text: str) -> None:
    """One line in control.log or server.log."""
    with open(log_dir() / f"{name}.log", "a", encoding="utf-8") as file:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"[{stamp}.000 Control {os.getpid():5}] {text}\n")


# ---------------------------------------------------------------------- starting and asking


def through(directory: Path) -> tuple[int, str]:
    """A descriptor of the directory, and the socket's name by it: long paths do not fit."""
    descriptor = os.open(directory, os.O_PATH | os.O_CLOEXEC)
    return descriptor, f"/proc/self/fd/{descriptor}/control"


def bind(listener: socket.socket, directory: Path) -> None:
    """Listen in the pipe directory, in place of a daemon that is dead."""
    (directory / "control").unlink(missing_ok=True)
    descriptor, name = through(directory)
    listener.bind(name)
    os.close(descriptor)


def connect() -> socket.socket | None:
    """To the daemon of this environment, if it is there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        descriptor, name = through(pipe_dir())
    except OSError:
        return None
    try:
        connection.connect(name)
    except OSError:
        connection.close()
        return None
    finally:
        os.close(descriptor)
    return connection


def start(background: bool) -> int:
    """Become the daemon; in the background, return when it can be reached."""
    pipe_dir().mkdir(parents=True, exist_ok=True)
    log_dir().mkdir(parents=True, exist_ok=True)
    if connect() is not None:
        print("An instance of this daemon is already running", file=sys.stderr)
        return 1
    if not background:
        ControlDaemon().run()
        return 0
    reader, writer = os.pipe()
    if os.fork() > 0:
        os.close(writer)
        return 0 if os.read(reader, 1) else 1
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    os.close(reader)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    daemon = ControlDaemon()
    os.write(writer, b"1")
    os.close(writer)
    daemon.run()
    return 0


def ask() -> int:
    """Pass on the commands of stdin, one a line, and print what comes back."""
    for line in sys.stdin:
        if not line.strip():
            continue
        connection = connect()
        if connection is None:
            print("Cannot find MPS control daemon process", file=sys.stderr)
            return 1
        connection.sendall(b"command " + line.strip().encode() + b"\n")
        answer = b""
        while not answer.endswith(_END):
            got = connection.recv(65536)
            if not got:
                return 1
            answer += got
        sys.stdout.write(answer[: -len(_END)].decode())
        sys.stdout.flush()
        if line.split()[0] == "quit":
            break
    return 0


def main() -> int:
    """The program."""
    match sys.argv[1:]:
        case ["-d"]:
            return start(background=True)
        case ["-f"]:
            return start(background=False)
        case []:
            return ask()
    print("usage: nvidia-cuda-mps-control [-d | -f]", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
