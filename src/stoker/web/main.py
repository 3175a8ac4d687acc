"""The page's process: `python -m stoker.web.main REPORT_FD LIFE_FD SETTINGS LAST_PORT`.

Started and ended by the daemon. One line on REPORT_FD says where the page is, or why it is not;
LIFE_FD ends when the daemon does, however that comes about, and the page then ends too.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import itertools
import logging
import os
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from stoker.api.messages import PageSettings
from stoker.api.paths import Home
from stoker.api.tokens import Access
from stoker.errors import Failed, StokerError, UsageError
from stoker.quantities import quoted
from stoker.web.refusals import OncePerMinute

if TYPE_CHECKING:
    import uvicorn

log = logging.getLogger("stoker.web")

_RIGHTS_EVERY_S = 0.25
_WAYS_IN_EVERY = 40  # of these turns
# A page that was just ended may have the port for another moment.
_PORT_WITHIN_S = 10.0
_FIRST_PORT = 4004
_PORTS_TRIED = 100


@dataclass(frozen=True, slots=True)
class Place:
    """Where the page listens, and under which names it may be asked for."""

    listener: socket.socket
    url: str
    names: list[str]
    secure: bool
    port: int
    taken: int | None = None  # the port that it would have had


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked(settings: PageSettings, access: Access) -> None:
    """Refuse what would let others in."""
    has_tls = settings.tls_cert is not None
    if has_tls != (settings.tls_key is not None):
        raise UsageError("TLS needs a certificate and its key", "give --tls-cert and --tls-key")
    if is_loopback(settings.host):
        return
    missing = []
    if not any(grant.kind == "token" for grant in access.grants()):
        missing.append("a token (`stoker token create`)")
    if not has_tls and not settings.behind_proxy:
        missing.append("TLS (--tls-cert and --tls-key, or --behind-proxy)")
    if missing:
        raise UsageError(
            f"--host {settings.host} can be reached from other machines: that needs "
            + " and ".join(missing),
            "or leave out --host, and forward the page's port by `ssh -L`",
        )


def place_of(settings: PageSettings, last_port: int | None, *, patient: bool) -> Place:
    """Take the port that was named, else the last one, for bookmarks, else the next free one."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    first, *others = ports = _ports(settings, last_port)
    until = time.monotonic() + (_PORT_WITHIN_S if patient else 0.0)
    listener = _listener(family, settings.host, first)
    while listener is None and time.monotonic() < until:
        time.sleep(0.05)
        listener = _listener(family, settings.host, first)
    taken = None if listener is not None else first
    for port in others:
        listener = listener or _listener(family, settings.host, port)
    if listener is None:
        what = f"{settings.host}:{first}" if len(ports) == 1 else f"all ports from {_FIRST_PORT} on"
        raise Failed(f"something else listens on {what}", "choose another with --port N")
    port = listener.getsockname()[1]
    secure = settings.tls_cert is not None or settings.behind_proxy
    host = f"[{settings.host}]" if family == socket.AF_INET6 else settings.host
    names = [*settings.names]
    if is_loopback(settings.host) or settings.host not in ("0.0.0.0", "::"):
        names.append(host)
    else:
        names += [socket.gethostname(), socket.getfqdn()]
    shown = names[0] if not is_loopback(settings.host) or settings.behind_proxy else host
    if settings.behind_proxy and settings.names:
        return Place(listener, f"https://{shown}", names, secure, port)
    scheme = "https" if settings.tls_cert is not None else "http"
    return Place(listener, f"{scheme}://{shown}:{port}", names, secure, port, taken)


def _ports(settings: PageSettings, last_port: int | None) -> list[int]:
    """Which ports to try. A proxy in front passes requests to one port, and can't look for it."""
    if settings.port is not None:
        return [settings.port]
    if settings.behind_proxy:
        return [_FIRST_PORT]
    known = [] if last_port is None else [last_port]
    return list(dict.fromkeys([*known, *range(_FIRST_PORT, _FIRST_PORT + _PORTS_TRIED)]))


def _listener(family: int, host: str, port: int) -> socket.socket | None:
    """One that listens there; None if something else does."""
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    # Connections inherit it. The head of an answer and its body are written apart, and without this
    # the body would wait 40 ms for the browser to acknowledge the head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise Failed(f"can't listen on {quoted(f'{host}:{port}')}: {error.strerror or error}",
                     "choose another --host or --port") from None  # fmt: skip
    return listener


def server_of(settings: PageSettings, place: Place, home: Home, access: Access) -> uvicorn.Server:
    """The server, ready to serve."""
    import uvicorn

    from stoker.web.app import application
    from stoker.web.connections import guarded, room_for_connections
    from stoker.web.events import Feed
    from stoker.web.link import Link
    from stoker.web.refusals import Refusals
    from stoker.web.services import Services

    most_connections, backlog = room_for_connections()
    link = Link(home)
    refusals = Refusals()
    services, secure = Services(link, Feed(link)), place.secure
    with_metrics = settings.metrics
    app = application(
        services, access, refusals, place.names, secure=secure, with_metrics=with_metrics
    )
    config = uvicorn.Config(
        app,
        http=guarded(refusals, most_connections),
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,
        backlog=backlog,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one too.
        reason = error.strerror or error
        raise Failed(
            f"the certificate or its key can't be read: {reason}", "see --tls-cert"
        ) from None
    return uvicorn.Server(config)


async def _run(
    settings: PageSettings,
    last_port: int | None,
    home: Home,
    report: Any,
    life_fd: int,
    patient: bool,
) -> None:
    access = Access(home)
    checked(settings, access)
    _require_libraries()
    place = place_of(settings, last_port, patient=patient)
    server = server_of(settings, place, home, access)
    # Nothing is worth finishing here once the daemon is gone.
    asyncio.get_running_loop().add_reader(life_fd, os._exit, 0)
    report(f"ready\t{place.url}\t{place.port}\t{place.taken or ''}")
    watching = asyncio.create_task(_watch_rights(server, access))
    try:
        await server.serve(sockets=[place.listener])
    finally:
        watching.cancel()


async def _watch_rights(server: uvicorn.Server, access: Access) -> None:
    """Make what was revoked useless at once, though no request comes just now."""
    from stoker.web.connections import end_what_was_revoked

    for turn in itertools.count():
        end_what_was_revoked(server.server_state.connections, access)
        if turn % _WAYS_IN_EVERY == 0:
            try:
                access.remove_expired_ways_in()
            except (StokerError, OSError) as error:
                log.warning("files with one-time links can't be removed: %s", error)
        await asyncio.sleep(_RIGHTS_EVERY_S)


def _require_libraries() -> None:
    from stoker.installing import install_command, too_old

    names = ("starlette", "uvicorn")
    try:
        import starlette
        import uvicorn  # noqa: F401
    except ImportError:
        raise Failed(
            "the page needs Starlette and uvicorn", f"run: {install_command(*names)}"
        ) from None
    del starlette
    if old := too_old(*names):
        raise Failed(f"the page can't be served: {old}", f"run: {install_command(*names)}")


def main() -> int:
    """Be the page; see the module."""
    report_fd, life_fd = int(sys.argv[1]), int(sys.argv[2])
    settings = msgspec.json.decode(sys.argv[3], type=PageSettings)
    last_port = int(sys.argv[4]) if sys.argv[4] else None
    patient = sys.argv[5:] == ["again"]
    for fd in (report_fd, life_fd):
        os.set_inheritable(fd, False)
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    # What strangers send is no news, and would fill the log; nor may anything else of theirs.
    for handler in logging.getLogger().handlers:
        handler.addFilter(OncePerMinute())
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)

    def report(text: str) -> None:
        with suppress(OSError):  # The daemon is not there any more.
            os.write(report_fd, text.encode(errors="replace") + b"\n")
            os.close(report_fd)

    try:
        home = Home.from_environment()
        asyncio.run(_run(settings, last_port, home, report, life_fd, patient))
    except StokerError as error:
        report(f"{error.code}\t{error.message}\t{error.hint}")
        return error.exit_code
    except Exception as error:
        log.exception("the page could not go on")
        report(f"failed\tthe page could not start: {error}\tsee the daemon's log")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
