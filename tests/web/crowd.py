"""Connections that a test holds many of."""

from __future__ import annotations

import socket


def has_ended(connection: socket.socket) -> bool:
    """Whether the other side has ended it, once all that it said was read."""
    connection.setblocking(False)
    try:
        while connection.recv(65_536):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(60)


def send_what_is_taken(connection: socket.socket, data: bytes) -> None:
    """Send as much as the other side takes before it ends the connection."""
    try:
        connection.sendall(data)
    except OSError:
        pass
