"""Free ports for jobs on several GPUs, whose processes meet at MASTER_ADDR and MASTER_PORT.

A port is given to one attempt at a time on this machine, of all its users. It is claimed by an
abstract socket of that name, which the kernel has once for each network (as the ports), and which
goes with the daemon. The next daemon claims anew what the processes of adopted attempts were told.
Meanwhile the port is in use by its job, or no process of Stoker gives ports away.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Mapping
from contextlib import suppress

from stoker.core.model import Launch
from stoker.executors.ledger import Key
from stoker.executors.processes import environ_of
from stoker.executors.shortage import CouldNotStart, could_not

ADDRESS, PORT = "MASTER_ADDR", "MASTER_PORT"
_PLACE = re.compile(r"(?<!\$)\{port\}")  # in a command; ${port} is a variable of its shell
_FIRST, _COUNT = 20_000, 9_000  # below those that the system gives to connections
_HERE = "127.0.0.1"


class MasterPorts:
    """The ports that attempts have."""

    def __init__(self) -> None:
        self._claims: dict[Key, tuple[int, socket.socket]] = {}

    def __bool__(self) -> bool:
        return bool(self._claims)

    def told(self, key: Key, launch: Launch) -> tuple[Launch, dict[str, str]]:
        """The launch with the port in its command, and what its environment is to say of it.

        A port that the user has set for the job is taken as it is.
        """
        said = launch.extra_env.get(PORT)
        try:
            port = str(self._port_of(key)) if said is None else said
        except OSError as error:
            raise could_not(error, PORT) from None
        if launch.shell is not None:
            launch = launch._replace(shell=_PLACE.sub(port, launch.shell))
        else:
            launch = launch._replace(argv=tuple(_PLACE.sub(port, word) for word in launch.argv))
        return launch, {ADDRESS: _HERE, PORT: port, **_only_own(launch.extra_env)}

    def adopt(self, key: Key, pid: int) -> None:
        """Claim again what an attempt has that an earlier daemon started."""
        port = _told_to(pid)
        if port is not None and key not in self._claims:
            claim = _claimed(port)
            if claim is not None:
                self._claims[key] = (port, claim)

    def release(self, key: Key) -> None:
        """An attempt is over."""
        claim = self._claims.pop(key, None)
        if claim is not None:
            claim[1].close()

    def close(self) -> None:
        """Release all."""
        for key in list(self._claims):
            self.release(key)

    def _port_of(self, key: Key) -> int:
        known = self._claims.get(key)
        if known is not None:
            return known[0]
        # Those that start together look in different places first.
        for step in range(_COUNT):
            port = _FIRST + (key[0] + step) % _COUNT
            claim = _claimed(port)
            if claim is None:
                continue
            try:
                is_free = _is_free(port)
            except OSError:
                claim.close()
                raise
            if is_free:
                self._claims[key] = (port, claim)
                return port
            claim.close()
        raise CouldNotStart(f"no port from {_FIRST} to {_FIRST + _COUNT - 1} is free for {PORT}")


def _only_own(env: Mapping[str, str]) -> dict[str, str]:
    return {name: env[name] for name in (ADDRESS, PORT) if name in env}


def _claimed(port: int) -> socket.socket | None:
    """The claim; None if another has it."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0stoker-master-port-{port}")
    except OSError as error:
        claim.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return claim


def _is_free(port: int) -> bool:
    """Whether a server could listen there, on every address of this machine."""
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.bind((address, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise  # The machine is short of something. (With those there is no IPv6.)
    return True


def _told_to(pid: int) -> int | None:
    with suppress(OSError, ValueError):
        for variable in environ_of(pid):
            name, _, value = variable.partition(b"=")
            if name == PORT.encode() and _FIRST <= int(value) < _FIRST + _COUNT:
                return int(value)
    return None
