"""`simple_gpu_scheduler --gpus 0 1 2`: the older tool's command on Stoker's engine.

Commands are read from stdin, one a line; each start is told in the older tool's own words, and
what the commands print is shown here. Nothing is scheduled here: this is `stoker feed` with
another face.
"""

from __future__ import annotations

try:
    from stoker.compat.loading import Loading
except KeyboardInterrupt:  # Ctrl-C before the next lines can say what it means.
    raise SystemExit(130) from None

with Loading():
    import argparse
    import os
    import sys

    from stoker.api.client import Client
    from stoker.cli.feeding.channel import Channel
    from stoker.cli.feeding.feed import Feed
    from stoker.cli.feeding.identity import Points, new_run
    from stoker.cli.feeding.progress import let_go_of_a_lost_terminal
    from stoker.cli.feeding.signals import Signals
    from stoker.cli.feeding.source import Source
    from stoker.compat.console import Console, ErrorFiles, keeps_errors_apart
    from stoker.compat.lent_gpus import Lent
    from stoker.compat.refusals import Parser, refused
    from stoker.errors import StokerError, UsageError
    from stoker.quantities import gpu_ids
    from stoker.submission.surroundings import surroundings
    from stoker.text.terminal import has_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from stoker.cli.feeding.tally import Line

PROGRAM = "simple_gpu_scheduler"
HUNG_UP = 129
INTERRUPTED = 130

_EPILOG = f"""\
Commands are read from stdin, one a line, and run by your login shell, each on a GPU of its own:
  {PROGRAM} --gpus 0 1 2 < gpu_commands.txt
  tail -f -n 0 gpu.queue | {PROGRAM} --gpus 0,1,2
With `--gpus 0,1 2,3` each command gets 0,1 or 2,3; with `--gpus 0 0 1 1` two commands share a GPU.
Ctrl-C: take no more commands and let the running ones finish; a second Ctrl-C stops them.
`stoker feed` does the same with progress, a summary, and more options.
"""


def _parser() -> Parser:
    parser = Parser(
        PROGRAM,
        description="Run commands on individual GPUs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--gpus", nargs="+", required=True, metavar="ID", help="the GPUs to use: 0 1 2, or 0,1,2"
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the commands on stdin; the exit code is 0 however they end, as the older tool's is."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        return _run(needs_of(_parser().parse_args(argv).gpus))
    except StokerError as error:
        return refused(PROGRAM, error)
    except KeyboardInterrupt:
        return INTERRUPTED  # before it listened itself


def needs_of(words: list[str]) -> list[dict[str, Any]]:
    """What commands need, in the api's terms: one need for all, or several, for one at a time each.

    `0 1 2` and `0,1,2` are one GPU each. Among several words, each is what one command gets, as in
    the older tool. A GPU that is named several times is shared by as many commands.
    """
    from collections import Counter

    if len(words) == 1:
        sets = [[gpu] for part in words[0].split(",") for gpu in gpu_ids(part)]
    else:
        sets = [gpu_ids(word) for word in words]
    if any(len(one) > 1 for one in sets):
        # Those with a GPU in common take turns, since each job has its GPUs to itself.
        return [
            {**_part(1 if one[1:] else sets.count(one), len(one)), "on": one, "prefer": one}
            for one in sets
        ]
    times = Counter(gpu for [gpu] in sets)
    if len(set(times.values())) > 1:
        raise UsageError(
            f"GPU {times.most_common(1)[0][0]} is named more often than others",
            "name each GPU once, or all of them equally often to share them",
        )
    sharers = next(iter(times.values()))
    # The older tool takes the last of its GPUs first.
    return [{**_part(sharers, 1), "on": list(times), "prefer": list(reversed(times))}]


def _part(sharers: int, gpus: int) -> dict[str, Any]:
    """So many GPUs, or the part of one that lets so many commands share it."""
    if sharers > 1:
        return {"share": 1000 // sharers / 1000, "max_per_gpu": sharers}
    return {"gpus": gpus}


def _run(needs: list[dict[str, Any]]) -> int:
    source = Source(None)
    source.check()
    group = f"{PROGRAM}-{os.urandom(4).hex()}"
    # What a command leaves in the background lives on, as with the older tool.
    job = (needs[0] if len(needs) == 1 else {}) | {"group": group, "keep_children": True}
    if has_terminal() and "PYTHONUNBUFFERED" not in os.environ:
        # On a terminal a Python program shows each line as it prints it; in a log it would not.
        job["env"] = {"PYTHONUNBUFFERED": "1"}
    request = {"jobs": [job], **surroundings()}
    with Signals() as signals, Client() as client:
        client.connect()
        lent = Lent(client, [gpu for need in needs for gpu in need["on"]])
        points = Points(new_run())
        errors = ErrorFiles(client.home.root, points.run) if keeps_errors_apart() else None

        def own(line: Line) -> dict[str, Any]:
            return {"err": errors.path(line.point)} if errors is not None else {}

        view = Console(PROGRAM, signals, errors)
        places = needs if len(needs) > 1 else []
        channel = Channel(client, group)
        feed = Feed(source, channel, request, points, view, signals, own=own, places=places)
        try:
            feed.run()
        finally:
            view.close()
            let_go_of_a_lost_terminal()
            if errors is not None and not feed.left_behind:
                errors.close()
            lent.give_back()
    if signals.hung_up:
        return HUNG_UP
    if signals.interrupted_by:
        return 128 + signals.interrupted_by
    if feed.error is not None:
        raise feed.error
    return 0


def entry() -> NoReturn:
    """The console script."""
    code = main()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            pass
    os._exit(code)


if __name__ == "__main__":
    entry()
