"""`stoker demo`: what Stoker does, shown in under a minute, without GPUs and without a trace."""

from __future__ import annotations

import sys

from stoker.cli.options import Args, Option, Verb


def demo(args: Args) -> int:
    """Show it; exit code 0 only if all that was shown has really held."""
    from stoker.cli.demo.stage import Stage
    from stoker.cli.demo.tour import play
    from stoker.cli.temporary_home import Interrupted
    from stoker.text.terminal import say

    try:
        with Stage(pauses=not args["fast"]) as stage:
            return play(stage)
    except Interrupted as interrupted:
        sys.stdout.flush()  # What was being written comes before the last word.
        say("stoker: the demo was interrupted, and has cleaned up")
        return interrupted.exit_code


VERB = Verb(
    "demo",
    "show in under a minute what Stoker does, on stand-in GPUs",
    run=demo,
    options=(Option("fast", "do not pause to let you read"),),
    examples=(("stoker demo", "packing, `why`, a sweep, and a daemon killed halfway"),),
    notes=(
        "It needs no GPU and uses none. It has a temporary home of its own, and leaves nothing "
        "behind, also after Ctrl-C. Exit code: 0 if everything that it shows has really held, else "
        "1.",
    ),
)
