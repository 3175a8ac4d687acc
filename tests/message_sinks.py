"""Where messages arrive in tests: an HTTP server and an SMTP server of our own on this machine.

A message counts as arrived when its answer is about to be sent, as with any server.
"""

from __future__ import annotations

import json
import socketserver
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Sink:
    """What has arrived, as pairs of a title and a text."""

    def __init__(self) -> None:
        self.url = ""
        self.arrived: list[tuple[str, str]] = []
        self.kinds: dict[str, str] = {}  # by title: what Apprise says of it, over HTTP
        self.refused = 0  # while `refuses`
        self.refuses = False

    def take(self, title: str, text: str) -> bool:
        if self.refuses:
            self.refused += 1
            return False
        self.arrived.append((title, text))
        return True

    def titles(self) -> list[str]:
        return [title for title, _ in self.arrived]


def left_to_tell(database: str) -> int:
    """How many notices and open groups a home has."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        query = "SELECT (SELECT count(*) FROM notices) + (SELECT count(*) FROM open_groups)"
        return int(connection.execute(query).fetchone()[0])


@contextmanager
def http_sink() -> Iterator[Sink]:
    """An HTTP server that takes Apprise's JSON."""
    sink = Sink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sink.kinds[sent["title"]] = sent["type"]
            taken = sink.take(sent["title"], sent["message"])
            self.send_response(200 if taken else 500)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with _serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        sink.url = f"json://someone:secret-word@127.0.0.1:{port}/hidden-topic"
        yield sink


@contextmanager
def smtp_sink() -> Iterator[Sink]:
    """As much of a mail server as it takes to be sent a mail."""
    sink = Sink()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 sink")
            while line := self.rfile.readline():
                word = line[:4].upper().strip()
                if word == b"DATA":
                    self._say("354 go on")
                    mail = message_from_bytes(self._lines_of_mail(), policy=policy.default)
                    text = mail.get_body(("plain",))
                    taken = sink.take(str(mail["subject"]), text.get_content() if text else "")
                    self._say("250 taken" if taken else "451 try again later")
                elif word == b"QUIT":
                    self._say("221 bye")
                    return
                else:
                    self._say("250 fine")

        def _lines_of_mail(self) -> bytes:
            lines = []
            while (line := self.rfile.readline()) not in (b".\r\n", b""):
                lines.append(line)
            return b"".join(lines)

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with _serving(Server(("127.0.0.1", 0), Handler)) as port:
        people = "from=stoker@example.org&to=me@example.org"
        sink.url = f"mailto://127.0.0.1:{port}?mode=insecure&{people}"
        yield sink


@contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
