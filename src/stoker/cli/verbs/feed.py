"""`stoker feed`: read commands line by line, and run them until the last has ended."""

from __future__ import annotations

import gc

from stoker.cli.jobspec import job_options
from stoker.cli.options import JSON, Option, Positional, Verb
from stoker.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.api.client import Client
    from stoker.cli.feeding.feed import Feed
    from stoker.cli.feeding.tally import Tally
    from stoker.cli.options import Args

HUNG_UP = 129


def feed(args: Args) -> int:
    """Feed the queue from a file or stdin."""
    if args["keep_going"] and args["fail_fast"]:
        raise UsageError("--keep-going and --fail-fast exclude each other", "give one of them")
    from stoker.api import client as api
    from stoker.cli.feeding.feed import Feed
    from stoker.cli.feeding.identity import Lock, Points, group_for, last_run, new_run
    from stoker.cli.feeding.progress import let_go_of_a_lost_terminal, progress
    from stoker.cli.feeding.source import Source
    from stoker.cli.feeding.talk import Talk
    from stoker.cli.feeding.wishes import Wishes
    from stoker.cli.jobspec import submission
    from stoker.submission.surroundings import resolve_requirements
    from stoker.text.terminal import say

    # Lines stay until their jobs are over, and hardly any of it is garbage to be looked for.
    gc.set_threshold(100_000, 50, 50)
    source = Source(args["file"])
    if args["resume"] and args["group"] is None and source.path is None:
        raise UsageError(
            "a pipe can't be known again by itself", "name the group of the feed with --group"
        )
    group = args["group"] = args["group"] or group_for(source.path)
    request = submission(args)
    expected = source.check()
    with Wishes() as wishes, api.Client() as client:
        client.connect()
        resolve_requirements(client, request["jobs"][0])
        lock = Lock(client.home, group, alone=args["resume"])
        try:
            run = last_run(client, group) if args["resume"] else None
            view = progress(reads_terminal=source.is_terminal)
            one_feed = Feed(
                source, Talk(client, group), request, Points(run or new_run()), view, wishes,
                resume=run is not None, fail_fast=args["fail_fast"],
            )  # fmt: skip
            one_feed.tally.expected = expected
            if args["resume"] and run is None:
                say(f"stoker: no feed of the group {group} is known; this is the first")
            say(f"stoker: commands from {source.name} go into the group {group}")
            if source.is_terminal:
                say("stoker: type one command a line; Ctrl-D on an empty line ends the input")
            try:
                one_feed.run()
            finally:
                view.close()
            if not wishes.hung_up:
                _tell(one_feed.tally, client, group, as_json=args["json"])
        finally:
            lock.close()
            let_go_of_a_lost_terminal()
    return _exit_code(one_feed, wishes.interrupted_by, wishes.hung_up)


def _tell(tally: Tally, client: Client, group: str, *, as_json: bool) -> None:
    import time

    from stoker.cli.feeding import summary
    from stoker.cli.feeding.progress import write
    from stoker.text.terminal import out, say

    jobs = summary.jobs_of(client, tally.failures)
    if as_json:
        from stoker.api.jsonline import dumps

        out(dumps(summary.summary_json(group, tally, jobs)) + "\n")
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
    "run commands from a file or stdin, one a line, until the last has ended",
    run=feed,
    positionals=(
        Positional("FILE", "a file with one command a line; stdin unless told", optional=True),
    ),
    options=(
        *job_options("feed"),
        Option("keep-going", "go on if a command fails; that is so unless told"),
        Option("fail-fast", "cancel the rest as soon as a command fails"),
        Option("resume", "go on with the group's last feed: what has succeeded is not run again"),
        JSON,
    ),
    examples=(
        ("stoker feed --on 0,1,2 < gpu_commands.txt", "each on one of these GPUs"),
        ("tail -f -n 0 gpu.queue | stoker feed --on 0,1,2", "each as soon as it is written"),
        ("stoker feed --resume commands.txt", "what an interrupted feed has not done"),
    ),
    notes=(
        "Every line is run by your login shell; the options are those of `stoker add`, and count "
        "for each line. Empty lines and those that begin with # are passed over. A line that ends "
        "in a backslash goes on in the next; lines between a line <<< and a line >>> are one "
        "command.",
        "Ctrl-C (or SIGTERM): take no more commands, call off those that have not started, and "
        "let the running ones finish; a second stops these, a third does not wait for them. "
        "SIGUSR1: stop reading and finish what was read. If the terminal is closed, what was read "
        "goes on in the background.",
        "--resume knows a feed by its group: the one that --group names, else one that is made "
        "from the path of the file (also with < FILE).",
        "Exit code: 0 if every command succeeded, 1 if any did not, 2 if the input is no good "
        "(nothing is queued then, unless it came through a pipe), 130 after Ctrl-C.",
    ),
)
