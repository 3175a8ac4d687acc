"""`stoker uninstall`: end the daemon, and say what is left where and how to remove it."""

from __future__ import annotations

import os
import sys

from stoker.api.paths import Home
from stoker.cli.options import JSON, Args, Option, Verb, print_json
from stoker.errors import Failed
from stoker.text.terminal import escaped, out, say


def uninstall(args: Args) -> None:
    """Stop the daemon; tell what is left. Jobs' data are deleted only if that was asked for."""
    from stoker.api.claim import check
    from stoker.cli.daemon_life import hello_of_daemon, jobs_continue, stop_daemon

    home = Home.from_environment()
    check(home)  # The state of another machine is not ours to end or delete.
    running, continuing, queued = hello_of_daemon(), 0, 0
    if running is not None:
        active, queued = _counts()
        if args["delete_data"] and not args["kill"] and active:
            raise Failed(
                "jobs are running, and their data can't be deleted under them",
                "wait for them, or add --kill",
            )
        continuing = stop_daemon("kill" if args["kill"] else "leave")
    deleted = _delete(home) if args["delete_data"] else []
    left = _left(home)
    if args["json"]:
        print_json({"deleted": deleted, "left": left, "continuing": continuing, "queued": queued})
        return
    for path in deleted:
        say(f"deleted {escaped(path)}")
    ended = "the daemon has stopped" if running else "the daemon was not running"
    say(ended + (f"; {jobs_continue(continuing)} without it" if continuing else ""))
    if queued:
        jobs, they = ("1 job", "it starts") if queued == 1 else (f"{queued} jobs", "they start")
        gone = f"{jobs} had not started, and {'was' if queued == 1 else 'were'} deleted too"
        stays = f"{jobs} in the queue: {they} if Stoker is started again"
        say(gone if deleted else stays)
    if left:
        say("what is left:")
    for one in left:
        out(escaped(f"{one['what']}: {one['path']}") + "\n")
        say(f"  to remove it: {escaped(one['remove'])}")


def _counts() -> tuple[int, int]:
    """How many jobs are active, and how many have not started."""
    from stoker.api.client import Client

    with Client(autostart=False) as client:
        counts = client.call("status", limit=1)["counts"]
    active = sum(counts.get(state, 0) for state in ("submitted", "running", "stopping"))
    return active, sum(counts.get(state, 0) for state in ("waiting", "held"))


def _directories(home: Home) -> list[str]:
    """Where data are: the state, and the logs if they are on a disk that machines share."""
    found = [home.root]
    if home.kept_in and os.path.islink(home.attempts):
        found.append(os.path.dirname(os.path.realpath(home.attempts)))
    return [path for path in found if os.path.isdir(path)]


def _delete(home: Home) -> list[str]:
    import shutil

    if os.path.isdir(home.root) and not os.path.exists(home.database):
        raise Failed(
            f"{home.root} has no database of Stoker, and is not deleted",
            "look at it, and delete it yourself",
        )
    found = _directories(home)
    for path in found:
        shutil.rmtree(path)
    return found


def _left(home: Home) -> list[dict[str, str]]:
    import shlex

    from stoker.cli.service import unit_path

    data = [
        {"what": "jobs, logs and settings", "path": path,
         "remove": "stoker uninstall --delete-data"}
        for path in _directories(home)
    ]  # fmt: skip
    unit = [
        {"what": "service", "path": path, "remove":
         f"systemctl --user disable --now stoker; rm {shlex.quote(path)}"}
        for path in [unit_path()] if os.path.exists(path)
    ]  # fmt: skip
    program = {"what": "program", "path": sys.prefix, "remove": remove_command(sys.prefix)}
    return [*data, *unit, program]


def remove_command(prefix: str) -> str:
    """The command that removes the program, by the installer that put it there."""
    import shlex

    if os.path.exists(os.path.join(prefix, "uv-receipt.toml")):
        return "uv tool uninstall stoker-gpu"
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):
        return "pipx uninstall stoker-gpu"
    return f"{shlex.quote(sys.executable)} -m pip uninstall stoker-gpu"


VERB = Verb(
    "uninstall",
    "stop the daemon, and say what is left where and how to remove it",
    run=uninstall,
    options=(
        Option("kill", "stop the running jobs too (default: they continue)"),
        Option("delete-data", "delete jobs, logs and settings; refused while jobs run"),
        JSON,
    ),
    examples=(
        ("stoker uninstall", "nothing is deleted; running jobs continue"),
        ("stoker uninstall --kill --delete-data", "leave nothing but the program"),
    ),
)
