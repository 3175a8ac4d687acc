"""Starting the processes that work beside a daemon: the sender, the reader and the searchers.

Each is no job, reads what it is to do on its stdin, and may outlive its daemon.
"""

from __future__ import annotations

import os
import signal
import socket

from stoker.command_lines import SENDER_MARKER


def start(command: list[str], home: str, stdin: int) -> int:
    """Start one in a session of its own; its pidfd."""
    pid = os.posix_spawn(
        command[0],
        command,
        {**os.environ, "STOKER_HOME": home, SENDER_MARKER: "1"},
        file_actions=[(os.POSIX_SPAWN_DUP2, stdin, 0)],
        setsid=True,
    )
    return pidfd_of_child(pid)


def start_with_socket(command: list[str], home: str) -> tuple[int, socket.socket]:
    """The same, with a socket to it as its stdin; its end says that the daemon is gone."""
    ours, its = socket.socketpair()
    try:
        return start(command, home, its.fileno()), ours
    except OSError:
        ours.close()
        raise
    finally:
        its.close()


def pidfd_of_child(pid: int) -> int:
    """By which its end is heard; a process of which none could be had does not stay."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
