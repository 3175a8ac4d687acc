"""`stoker daemon`: start, stop, restart, look at the daemon; or install it as a service."""

from __future__ import annotations

import os

from stoker.api.client import Client
from stoker.api.holder import NotAnswering
from stoker.cli.options import JSON, Option, Verb
from stoker.errors import Unreachable, UsageError
from stoker.quantities import duration_text
from stoker.text.terminal import escaped, out, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.cli.options import Args

_DRAIN_POLL_MS = 1000


def _hello() -> dict[str, Any] | None:
    """What the daemon says of itself; None if there is none. It is never started for this."""
    try:
        with Client(autostart=False) as client:
            return client.call("hello")
    except NotAnswering:
        raise
    except Unreachable:
        return None


def _start() -> dict[str, Any]:
    from stoker.api.launch import start_daemon

    start_daemon()
    with Client(autostart=False) as client:
        return client.call("hello")


def start(args: Args) -> int:
    """Start the daemon unless it runs."""
    running = _hello()
    hello = running or _start()
    if args["json"]:
        _print_status(hello)
    else:
        word = "runs already" if running else "started"
        say(f"the daemon {word}: process {hello['pid']}")
    return 0


def stop(args: Args) -> int:
    """Stop the daemon."""
    if args["kill"] and args["drain"]:
        raise UsageError("--kill and --drain exclude each other", "give one of them")
    mode = "kill" if args["kill"] else "drain" if args["drain"] else "leave"
    running = _hello()
    if running is None:
        say("the daemon is not running")
    else:
        left = _stop(running["pid"], mode)
        say("the daemon has stopped" + (f"; {_jobs(left)} on without it" if left else ""))
    return 0


def _jobs(count: int) -> str:
    return "1 job goes" if count == 1 else f"{count} jobs go"


def _stop(pid: int, mode: str) -> int:
    """Tell the daemon to stop and wait until it is gone; how many jobs it left running."""
    import select

    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return 0
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        with Client(autostart=False) as client:
            left = _running(client) if mode == "leave" else 0
            client.call("shutdown", mode=mode)
            told = -1
            while not poll.poll(_DRAIN_POLL_MS):
                told = _tell_drain(client, told) if mode == "drain" else told
        return left
    except KeyboardInterrupt:
        if mode == "drain":
            say("stoker: the daemon goes on draining; it ends with its last job")
        raise
    finally:
        os.close(process)


def _running(client: Client) -> int:
    counts = client.call("status", limit=1)["counts"]
    return sum(int(counts.get(state, 0)) for state in ("submitted", "running", "stopping"))


def _tell_drain(client: Client, told: int) -> int:
    try:
        running = _running(client)
    except Unreachable:
        return told  # It is going.
    if running != told:
        say(f"draining: {running} " + ("job still runs" if running == 1 else "jobs still run"))
    return running


def restart(args: Args) -> int:
    """Stop the daemon, leaving its jobs running, and start it anew."""
    running = _hello()
    if running is not None:
        _stop(running["pid"], "leave")
    hello = _start()
    if args["json"]:
        _print_status(hello)
    else:
        say(f"the daemon started: process {hello['pid']}")
    return 0


def status(args: Args) -> int:
    """Tell whether the daemon runs; it is not started for that."""
    from stoker.api.claim import OnAnotherMachine, standing

    try:
        hello = _hello()
    except OnAnotherMachine:
        hello = None
    except NotAnswering as trouble:
        if not args["json"]:
            raise
        _print_status(None, trouble)
        return trouble.exit_code
    if args["json"]:
        _print_status(hello)
    elif hello is None:
        out("not running\n" + _host_text(standing(Client().home)))
    else:
        age = duration_text(int(hello["uptime_s"] * 1000))
        lines: tuple[str, ...] = (
            f"running for {age}, process {hello['pid']}, version {hello['version']}",
            f"socket  {hello['socket']}",
            f"state   {hello['home']}",
            f"log     {Client().home.log}",
        )
        place = standing(Client().home)
        lines += (f"disk    {place['file_system'] or 'of a kind that can not be told'}",)
        if place["logs"] is not None:
            lines += (f"logs    {place['logs']}",)
        out("".join(escaped(line) + "\n" for line in lines) + _host_text(place))
    return Unreachable.exit_code if hello is None else 0


def _host_text(place: dict[str, Any]) -> str:
    """Which machine has the state, if one has."""
    if place["claim"] is None:
        return ""
    which = "this machine" if place["is_here"] else "another machine"
    return escaped(f"host    {place['claim']}: {which}") + "\n"


def _print_status(hello: dict[str, Any] | None, trouble: NotAnswering | None = None) -> None:
    from stoker.api.claim import standing
    from stoker.api.jsonline import dumps
    from stoker.text.jobs import iso_times

    home = Client().home
    shown: dict[str, Any] = {"schema": 1, "running": hello is not None}
    if hello is None:
        shown |= {"pid": None, "socket": home.socket, "version": None, "uptime_s": None}
        if trouble is not None:
            shown |= {"running": True, "pid": trouble.pid}
            shown["trouble"] = f"{trouble.message}; {trouble.hint}"
    else:
        shown |= iso_times({key: value for key, value in hello.items() if key != "ok"})
    shown["log"] = home.log
    found = standing(home)
    del found["claim"]
    shown["place"] = iso_times(found)
    out(dumps(shown) + "\n")


def run(args: Args) -> int:
    """Be the service: the daemon runs as long as this process does."""
    from stoker.cli.foreground import run_daemon

    return run_daemon()


def claim(args: Args) -> int:
    """Have the state of a machine that is gone."""
    from stoker.api.claim import claim_from_another, whose
    from stoker.api.paths import Home

    home = Home.from_environment()
    was = claim_from_another(home)
    say(f"{home.root} is this machine's now" + (f"; it was {whose(was)}'s" if was else ""))
    say("jobs that ran elsewhere are lost; those with retries left run again, here")
    return 0


def install_service(args: Args) -> int:
    """Write a systemd user unit, and say how to switch it on."""
    from stoker.cli.service import install, unit_text

    if args["print"]:
        out(unit_text())
        return 0
    path = install(force=args["force"])
    say(f"wrote {path}; to switch it on:")
    say("  systemctl --user daemon-reload && systemctl --user enable --now stoker")
    say("so that it runs while you are logged out, too:")
    say("  loginctl enable-linger $USER")
    return 0


VERB = Verb(
    "daemon",
    "start, stop or look at the daemon, which commands start by themselves when they need it",
    verbs=(
        Verb(
            "daemon start", "start the daemon unless it runs",
            run=start, options=(JSON,),
            examples=(("stoker daemon start", "returns when it is ready"),),
        ),
        Verb(
            "daemon stop", "stop the daemon; jobs that run go on without it",
            run=stop,
            options=(
                Option("kill", "stop the jobs that run first"),
                Option("drain", "start no new jobs, and end when the last one has"),
            ),
            examples=(("stoker daemon stop", "running jobs go on, and are found again later"),
                      ("stoker daemon stop --drain", "let them finish first")),
        ),
        Verb(
            "daemon restart", "stop the daemon, leaving its jobs running, and start it anew",
            run=restart, options=(JSON,),
            examples=(("stoker daemon restart", "after an upgrade, say"),),
        ),
        Verb(
            "daemon status",
            "tell whether the daemon runs; exit code 4 if it does not, or does not answer",
            run=status, options=(JSON,),
            examples=(("stoker daemon status --json | jq .pid", "its process"),),
        ),
        Verb(
            "daemon claim", "go on here with a state whose machine is gone",
            run=claim,
            examples=(("stoker daemon claim", "after the machine that had it has died"),),
            notes=("A state directory that machines share is of the one whose daemon runs or has "
                   "jobs there, and others are refused. If that machine is gone, this one can have "
                   "it: refused within 30 s of a sign of life. What ran there is `lost`, and not "
                   "looked for here; so be sure that it is down.",),
        ),
        Verb(
            "daemon run", "run the daemon in the foreground, for systemd and the like",
            run=run,
            examples=(("stoker daemon run", "Ctrl-C stops the daemon; its jobs go on"),),
            notes=("Exit code 0 if it was asked to stop, 1 if the daemon died.",),
        ),
        Verb(
            "daemon install-service", "write a systemd user unit, and say how to switch it on",
            run=install_service,
            options=(
                Option("print", "print the unit and write nothing"),
                Option("force", "overwrite a unit that differs"),
            ),
            examples=(("stoker daemon install-service", "start with the machine"),
                      ("stoker daemon install-service --print", "see it first")),
        ),
    ),
    examples=(
        ("stoker daemon status", "does it run, and where is its log"),
        ("stoker daemon stop", "stop it; jobs that run go on"),
    ),
)  # fmt: skip
