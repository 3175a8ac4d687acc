"""`stoker feed`: read commands line by line, and run them until the last has ended."""

from __future__ import annotations

import gc

from stoker.cli.jobspec import job_options
from stoker.cli.options import JSON, Args, Option, Positional, Verb, print_json
from stoker.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.api.client import Client
    from stoker.cli.feeding.feed import Feed
    from stoker.cli.feeding.tally import Tally

HUNG_UP = 129


def feed(args: Args) -> int:
    """Feed the queue from a file or stdin."""
    if args["keep_going"] and args["fail_fast"]:
        raise UsageError("--keep-going and --fail-fast exclude each other", "give one of them")
    from stoker.api import client as api
    from stoker.cli.feeding.channel import Channel
    from stoker.cli.feeding.feed import Feed
    from stoker.cli.feeding.identity import Lock, Points, group_for, last_run, new_run
    from stoker.cli.feeding.progress import let_go_of_a_lost_terminal, progress
    from stoker.cli.feeding.signals import Signals
    from stoker.cli.feeding.source import Source
    from stoker.cli.jobspec import submission
    from stoker.submission.surroundings import resolve_requirements, take_code
    from stoker.text.terminal import say

    # Lines stay until their jobs are over, and hardly any of it is garbage to be looked for.
    gc.set_threshold(100_000, 50, 50)
    source = Source(args["file"])
    if args["resume"] and args["group"] is None and source.path is None:
        raise UsageError("--resume can't recognise a pipe", "name the feed's group with --group")
    group = args["group"] = args["group"] or group_for(source.path)
    request = submission(args, "feed")
    expected = source.check()
    with Signals() as signals, api.Client() as client:
        client.connect()
        resolve_requirements(client, request["jobs"][0])
        take_code(client, request["jobs"], request)  # All lines run the code of this moment.
        lock = Lock(client.home, group, alone=args["resume"])
        try:
            run = last_run(client, group) if args["resume"] else None
            view = progress(reads_terminal=source.is_terminal)
            one_feed = Feed(
                source, Channel(client, group), request, Points(run or new_run()), view, signals,
                resume=run is not None, fail_fast=args["fail_fast"],
            )  # fmt: skip
            one_feed.tally.expected = expected
            if args["resume"] and run is None:
                say(f"stoker: there is no earlier feed of the group {group}; starting a new one")
            say(f"stoker: commands from {source.name} go into the group {group}")
            if source.is_terminal:
                say("stoker: type one command per line; Ctrl-D on an empty line ends the input")
            try:
                one_feed.run()
            finally:
                view.close()
            if not signals.hung_up:
                _tell(one_feed.tally, client, group, as_json=args["json"])
        finally:
            lock.close()
            let_go_of_a_lost_terminal()
    return _exit_code(one_feed, signals.interrupted_by, signals.hung_up)


def _tell(tally: Tally, client: Client, group: str, *, as_json: bool) -> None:
    import time

    from stoker.cli.feeding import summary
    from stoker.cli.feeding.progress import write
    from stoker.text.terminal import say

    jobs = summary.jobs_of(client, tally.failures)
    if as_json:
        print_json(summary.summary_json(group, tally, jobs))
    write(summary.failures_text(tally.failures, jobs))
    more = summary.unshown(tally, group)
    if more:
        say(more)
    say(summary.headline(group, tally, time.monotonic() - tally.began))


def _exit_code(feed: Feed, interrupted_by: int, hung_up: bool) -> int:
    if hung_up:
        return HUNG_UP
    if interrupted_by:
        return 128 + interrupted_by
    if feed.error is not None:
        raise feed.error
    return int(feed.tally.failed > 0)


VERB = Verb(
    "feed",
    "run commands from a file or stdin, one per line, and wait for all of them",
    run=feed,
    positionals=(
        Positional("FILE", "a file with one command per line (default: stdin)", optional=True),
    ),
    options=(
        *job_options("feed"),
        Option("keep-going", "continue if a command fails (default)"),
        Option("fail-fast", "cancel the rest as soon as a command fails"),
        Option(
            "resume",
            "continue the group's last feed: commands that have succeeded are not run again",
        ),
        JSON,
    ),
    examples=(
        ("stoker feed --on 0,1,2 < gpu_commands.txt", "run each on one of these GPUs"),
        ("tail -f -n 0 gpu.queue | stoker feed --on 0,1,2", "run each as soon as it is written"),
        ("stoker feed --resume commands.txt", "run what an interrupted feed has left"),
    ),
    notes=(
        "Every line is run by your login shell. The options are those of `stoker add` and apply "
        "to each line. Empty lines and lines that begin with # are skipped. A line that ends in "
        "a backslash continues on the next line; the lines between a line <<< and a line >>> "
        "are one command.",
        "Ctrl-C (or SIGTERM): read no more commands, cancel those that have not started, and "
        "let the running ones finish. A second Ctrl-C stops the running ones, a third exits "
        "without waiting for them. SIGUSR1: stop reading and finish what was read. If the "
        "terminal is closed, what was read continues in the background.",
        "--resume finds the feed by its group: the one named by --group, else the one made from "
        "the path of the file (also with < FILE).",
        "Exit code: 0 if every command succeeded, 1 if any did not, 2 if the input is not valid "
        "(then nothing is queued, unless it came through a pipe), 130 after Ctrl-C.",
    ),
)
