"""`stoker web`: serve the page, and let this user's browser in."""

from __future__ import annotations

import os

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Json, Option, Verb, print_json
from stoker.errors import UsageError
from stoker.quantities import plain
from stoker.text.terminal import has_terminal, out, say

_USUAL_PORT = 4004


def _file(text: str) -> str:
    path = os.path.abspath(plain(text))
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path} can't be read", "name a file in PEM form")
    return path


def _changes(args: Args) -> Json:
    """The settings that were given, and no others."""
    if args["metrics"] and args["no_metrics"]:
        raise UsageError("--metrics and --no-metrics exclude each other", "give one of them")
    keys = ("host", "port", "tls_cert", "tls_key")
    found = {key: args[key] for key in keys if args[key] is not None}
    if args["name"]:
        found["names"] = args["name"]
    if args["behind_proxy"]:
        found["behind_proxy"] = True
    if args["metrics"] or args["no_metrics"]:
        found["metrics"] = args["metrics"]
    return found


def web(args: Args) -> None:
    """Serve the page if it is not served yet, and print an address that lets a browser in."""
    from stoker.api.tokens import Access

    with Client() as client:
        page = client.call("page_start", changes=_changes(args))
        access = Access(client.home)
    key = access.new_key(read_only=args["read_only"])
    address = f"{page['url']}/enter#{key}"
    if args["json"]:
        print_json({"url": page["url"], "address": address, "pid": page["pid"]})
        return
    out(f"{address}\n")
    if page["started"] and page.get("taken"):
        port = page["settings"]["port"]
        say(f"port {page['taken']} is taken by another program; the page uses {port}")
    elif page["started"] and args["port"] is None and page["settings"]["port"] != _USUAL_PORT:
        say(f"the page has port {page['settings']['port']}, as the last time; --port N changes it")
    say("this is a one-time login link, valid for ten minutes")
    if os.environ.get("SSH_CONNECTION"):
        port = page["settings"]["port"]
        say(f"from the machine where you sit: ssh -L {port}:localhost:{port} and this one's name")
    if not args["no_open"] and _has_desktop():
        # Its own address would be in the browser's arguments, which all users can see.
        _open(access.way_in(key, address))


def _has_desktop() -> bool:
    there = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(there) and has_terminal() and not os.environ.get("SSH_CONNECTION")


def _open(address: str) -> None:
    import webbrowser

    try:
        webbrowser.open(address)
    except (webbrowser.Error, OSError):
        pass  # The address was printed; it can be opened by hand.


def stop(args: Args) -> None:
    """End the page."""
    with Client() as client:
        stopped = client.call("page_stop")["stopped"]
    say("the page has ended" if stopped else "there was no page")


def status(args: Args) -> int:
    """Tell where the page is."""
    with Client() as client:
        page = client.call("page_status")
    if args["json"]:
        shown = {key: page.get(key) for key in ("running", "url", "pid", "settings")}
        print_json(shown)
    elif page["running"]:
        out(f"{page['url']}\n")
    else:
        out("not running\n")
    return 0 if page["running"] else 1


VERB = Verb(
    "web",
    "serve the web page and print a one-time login link",
    run=web,
    options=(
        Option("host", "the address to listen on (default: 127.0.0.1)", "ADDRESS"),
        Option("port", "the port (default: the last one, else 4004, else the next free one)", "N",
               quantities.number_within(1, 65_535, "port")),
        Option("name", "another host name under which the page can be reached; may be repeated",
               "NAME", repeat=True),
        Option("tls-cert", "the TLS certificate", "FILE", _file, files="file"),
        Option("tls-key", "the key of the TLS certificate", "FILE", _file, files="file"),
        Option("behind-proxy", "a proxy in front of the page provides TLS"),
        Option("metrics", "also serve /metrics for Prometheus; it needs a token"),
        Option("no-metrics", "serve no /metrics"),
        Option("read-only", "the link gives read-only access"),
        Option("no-open", "don't open a browser"),
        JSON,
    ),
    verbs=(
        Verb(
            "web stop", "stop the page and forget its settings",
            run=stop,
            examples=(("stoker web stop", "the daemon keeps running"),),
        ),
        Verb(
            "web status", "show the page's address; exit code 1 if it is not served",
            run=status, options=(JSON,),
            examples=(("stoker web status", "its address, without a login link"),),
        ),
    ),
    examples=(
        ("stoker web", "print a one-time login link, valid for ten minutes"),
        ("stoker web --port 8080 --read-only", "read-only, on another port"),
        ("ssh -L 4004:localhost:4004 gpubox stoker web", "the page of another machine"),
    ),
    notes=(
        "The daemon serves the page, in a separate process, until `stoker web stop`. Options "
        "are kept, and the page comes back when the daemon is restarted. If another program has "
        "the port, the page takes the next free one, unless --port names it. An address that "
        "other machines can reach is refused without a token and TLS.",
    ),
)  # fmt: skip
