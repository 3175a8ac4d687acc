"""`stoker daemon`: start, stop, restart, look at the daemon; or install it as a service."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.api.holder import NotAnswering
from stoker.cli.daemon_life import hello_of_daemon, jobs_continue, stop_daemon
from stoker.cli.options import JSON, Args, Json, Option, Verb, print_json
from stoker.errors import Unreachable, UsageError
from stoker.text import duration_text
from stoker.text.terminal import escaped, out, say


def _start() -> Json:
    from stoker.api.launch import start_daemon

    start_daemon()
    with Client(autostart=False) as client:
        return client.call("hello")


def start(args: Args) -> None:
    """Start the daemon unless it runs."""
    running = hello_of_daemon()
    _tell(args, running or _start(), "runs already" if running else "started")


def _tell(args: Args, hello: Json, word: str) -> None:
    if args["json"]:
        _print_status(hello)
    else:
        say(f"the daemon {word}: process {hello['pid']}")


def stop(args: Args) -> None:
    """Stop the daemon."""
    if args["kill"] and args["drain"]:
        raise UsageError("--kill and --drain exclude each other", "give one of them")
    mode = "kill" if args["kill"] else "drain" if args["drain"] else "leave"
    running = hello_of_daemon()
    if running is None:
        say("the daemon is not running")
    else:
        left = stop_daemon(mode)
        say("the daemon has stopped" + (f"; {jobs_continue(left)} without it" if left else ""))


def restart(args: Args) -> None:
    """Stop the daemon, leaving its jobs running, and start it anew."""
    running = hello_of_daemon()
    if running is not None:
        stop_daemon("leave")
    _tell(args, _start(), "started")


def status(args: Args) -> int:
    """Tell whether the daemon runs; it is not started for that."""
    from stoker.api.claim import OnAnotherMachine
    from stoker.api.installed import what_is_missing
    from stoker.api.standing import findings, standing

    try:
        hello = hello_of_daemon()
    except OnAnotherMachine:
        hello = None
    except NotAnswering as trouble:
        if not args["json"]:
            raise
        _print_status(None, trouble)
        return trouble.exit_code
    if args["json"]:
        _print_status(hello)
        return Unreachable.exit_code if hello is None else 0
    place = standing(Client().home)
    if hello is None:
        out("not running\n" + _host_text(place))
    else:
        age = duration_text(int(hello["uptime_s"] * 1000))
        lines = [
            f"running for {age}, process {hello['pid']}, version {hello['version']}",
            f"socket  {hello['socket']}",
            f"state   {hello['home']}",
            f"log     {Client().home.log}",
            f"disk    {place['file_system'] or 'unknown'}",
            *([f"logs    {place['logs']}"] if place["logs"] is not None else []),
        ]
        out("".join(escaped(line) + "\n" for line in lines) + _host_text(place))
    for line in what_is_missing():
        say(f"stoker: {line}")
    if place["is_shared"] or not place["is_here"]:
        for finding in findings(Client().home):
            if not finding.is_right:
                say(f"stoker: {finding.text}; {finding.hint}")
    return Unreachable.exit_code if hello is None else 0


def _host_text(place: Json) -> str:
    """Which machine has the state, if one has."""
    if place["claim"] is None:
        return ""
    which = "this machine" if place["is_here"] else "another machine"
    return escaped(f"host    {place['claim']}: {which}") + "\n"


def _print_status(hello: Json | None, trouble: NotAnswering | None = None) -> None:
    from stoker.api.standing import standing
    from stoker.text.jobs import iso_times

    home = Client().home
    shown: Json = {"running": hello is not None}
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
    print_json(shown)


def run(args: Args) -> int:
    """Be the service: the daemon runs as long as this process does."""
    from stoker.cli.foreground import run_daemon

    return run_daemon()


def claim(args: Args) -> None:
    """Have the state of a machine that is gone."""
    from stoker.api.claim import claim_from_another, whose
    from stoker.api.paths import Home

    home = Home.from_environment()
    was = claim_from_another(home)
    if was is None:
        say(f"{home.root} is this machine's")
        return
    say(f"{home.root} is this machine's now; it was {whose(was)}'s")
    say("jobs that ran on the other machine are lost; those with retries left run again here")


def install_service(args: Args) -> None:
    """Write a systemd user unit, and say how to switch it on."""
    from stoker.cli.service import install, unit_text

    if args["print"]:
        out(unit_text())
        return
    path = install(force=args["force"])
    say(f"wrote {path}; to enable it:")
    say("  systemctl --user daemon-reload && systemctl --user enable --now stoker")
    say("to keep it running while you are logged out:")
    say("  loginctl enable-linger $USER")


VERB = Verb(
    "daemon",
    "start, stop or inspect the daemon; commands start it when they need it",
    verbs=(
        Verb(
            "daemon start", "start the daemon if it is not running",
            run=start, options=(JSON,),
            examples=(("stoker daemon start", "returns when it is ready"),),
        ),
        Verb(
            "daemon stop", "stop the daemon; running jobs continue without it",
            run=stop,
            options=(
                Option("kill", "stop the running jobs first"),
                Option("drain", "start no new jobs, and stop when the last one has ended"),
            ),
            examples=(("stoker daemon stop", "running jobs continue; the next daemon finds them"),
                      ("stoker daemon stop --drain", "let them finish first")),
        ),
        Verb(
            "daemon restart", "restart the daemon; running jobs continue",
            run=restart, options=(JSON,),
            examples=(("stoker daemon restart", "e.g. after an upgrade"),),
        ),
        Verb(
            "daemon status",
            "show whether the daemon is running; exit code 4 if it is not, or does not answer",
            run=status, options=(JSON,),
            examples=(("stoker daemon status --json | jq .pid", "its process"),),
        ),
        Verb(
            "daemon claim", "take over the state directory of a machine that is gone",
            run=claim,
            examples=(("stoker daemon claim", "after the other machine has died"),),
            notes=("A shared state directory belongs to the machine whose daemon runs or has "
                   "jobs there; other machines are refused. If that machine is gone, `claim` "
                   "gives the directory to this one. It is refused if the other machine showed "
                   "a sign of life within the last 30 s. Jobs that ran there become `lost` and "
                   "are not looked for, so make sure that the machine is down.",),
        ),
        Verb(
            "daemon run", "run the daemon in the foreground, e.g. for systemd",
            run=run,
            examples=(("stoker daemon run", "Ctrl-C stops the daemon; its jobs continue"),),
            notes=("Exit code 0 if it was asked to stop, 1 if the daemon died.",),
        ),
        Verb(
            "daemon install-service", "write a systemd user unit and show how to enable it",
            run=install_service,
            options=(
                Option("print", "print the unit and write nothing"),
                Option("force", "overwrite a unit that differs"),
            ),
            examples=(("stoker daemon install-service", "start the daemon with the machine"),
                      ("stoker daemon install-service --print", "show the unit first")),
        ),
    ),
    examples=(
        ("stoker daemon status", "whether it runs, and where its log is"),
        ("stoker daemon stop", "stop it; running jobs continue"),
    ),
)  # fmt: skip
