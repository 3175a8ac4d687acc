"""`stoker uninstall`: end the daemon, and say what is left where and how to remove it."""

from __future__ import annotations

import os
import sys

from stoker.api.paths import Home
from stoker.cli.options import JSON, Args, Option, Verb, print_json
from stoker.errors import Failed, StokerError
from stoker.text.ids import id_list
from stoker.text.terminal import escaped, out, say

_MOST_NAMED = 5


def uninstall(args: Args) -> None:
    """Stop the daemon; tell what is left. Jobs' data are deleted only if that was asked for."""
    from stoker.api.claim import check
    from stoker.cli.daemon_life import hello_of_daemon, jobs_continue, stop_daemon
    from stoker.cli.deleting import Deletion, delete_state

    home = Home.from_environment()
    check(home)  # The state of another machine is not ours to end or delete.
    running, continuing, queued = hello_of_daemon() is not None, 0, 0
    # Jobs go on without a daemon. Only a daemon can find them, and end them.
    asks = (args["delete_data"] or args["kill"]) and os.path.exists(home.database)
    if running or asks:
        if not running:
            _look_after_jobs(home)
        active, queued = _jobs()
        if args["delete_data"] and not args["kill"] and active:
            if not running:
                stop_daemon("leave")
            is_one = len(active) == 1
            raise Failed(
                f"{id_list(active)} {'is' if is_one else 'are'} running, "
                f"and {'its' if is_one else 'their'} data can't be deleted meanwhile",
                f"wait for {'it' if is_one else 'them'}, or add --kill",
            )
        continuing = stop_daemon("kill" if args["kill"] else "leave")
    deletion = delete_state(home) if args["delete_data"] else Deletion([], [])
    left = _left(home)
    if args["json"]:
        counts = {"continuing": continuing, "queued": queued}
        print_json({**deletion._asdict(), "left": left, **counts})
        return
    for path in deletion.deleted:
        say(f"deleted {escaped(path)}")
    if deletion.kept:
        shown, more = deletion.kept[:_MOST_NAMED], len(deletion.kept) - _MOST_NAMED
        say("kept, because it is not Stoker's: " + ", ".join(escaped(path) for path in shown)
            + (f" and {more} more" if more > 0 else ""))  # fmt: skip
    ended = "the daemon has stopped" if running else "the daemon was not running"
    say(ended + (f"; {jobs_continue(continuing)} without it" if continuing else ""))
    if queued:
        jobs, they = ("1 job", "it starts") if queued == 1 else (f"{queued} jobs", "they start")
        gone = f"{jobs} had not started, and {'was' if queued == 1 else 'were'} deleted too"
        stays = f"{jobs} in the queue: {they} if Stoker is started again"
        say(gone if deletion.deleted else stays)
    if left:
        say("what is left:")
    for one in left:
        out(escaped(f"{one['what']}: {one['path']}") + "\n")
        say(f"  to remove it: {escaped(one['remove'])}")


def _look_after_jobs(home: Home) -> None:
    """Have a daemon that finds the jobs which run, and starts none."""
    from stoker.api.launch import start_daemon

    try:
        start_daemon(home, starts_nothing=True)
    except StokerError as error:
        raise Failed(
            f"it can't be told whether jobs run: {error.message}",
            f"nothing was deleted; {error.hint}",
        ) from None


def _jobs() -> tuple[list[int], int]:
    """The ids of jobs that are active, and how many have not started."""
    from stoker.api.client import Client

    with Client(autostart=False) as client:
        active = client.call("list", states=["submitted", "running", "stopping"])["jobs"]
        counts = client.call("status", limit=1)["counts"]
    ids = [int(job["id"]) for job in active]
    return ids, sum(counts.get(state, 0) for state in ("waiting", "held"))


def _left(home: Home) -> list[dict[str, str]]:
    import shlex

    from stoker.cli.deleting import data_directories
    from stoker.cli.service import unit_path

    data = [
        {"what": "jobs, logs and settings", "path": path,
         "remove": "stoker uninstall --delete-data"}
        for path in data_directories(home)
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
