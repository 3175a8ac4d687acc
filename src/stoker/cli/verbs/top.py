"""`stoker top`: GPUs and jobs, live; `--once` prints one picture."""

from __future__ import annotations

import os
import sys

from stoker.cli.options import Args, Option, Verb
from stoker.errors import Failed, UsageError
from stoker.text.terminal import has_terminal, say


def top(args: Args) -> int:
    """Show the live view, or one picture of it."""
    if args["once"]:
        _once()
        return 0
    if not has_terminal() or not has_terminal(sys.stdin):
        raise UsageError("there is no terminal to draw on", "`stoker top --once` prints a picture")
    if os.environ.get("TERM", "dumb") == "dumb":
        say("stoker: nothing can be drawn on this terminal (TERM=dumb); this is one picture")
        _once()
        return 0
    from importlib.util import find_spec

    from stoker.installing import install_command, too_old

    if find_spec("textual") is None:
        raise Failed(
            "the live view needs Textual, which is not installed",
            f"run: {install_command('textual')}, or use `stoker top --once`",
        )
    if old := too_old("textual"):
        raise Failed(f"the live view can't be shown: {old}", f"run: {install_command('textual')}")
    from stoker.top.live import run

    return run()


def _once() -> None:
    from stoker.api.client import Client
    from stoker.text.terminal import out, wants_colour
    from stoker.top.once import picture_text, size

    columns, rows = size()
    with Client() as client:
        out(picture_text(client, columns, rows, colours=wants_colour()))


VERB = Verb(
    "top",
    "live view of GPUs and jobs, with logs and keys to act on jobs",
    run=top,
    options=(Option("once", "print the view once and exit"),),
    examples=(
        ("stoker top", "watch; ? shows the keys, q quits"),
        ("stoker top --once", "print it once, for a pipe or a log"),
        ("watch -n 10 stoker top --once", "on a terminal that can't show the live view"),
    ),
    notes=(
        "The live view needs the package Textual. --once works without it.",
        "With --once, the output is as large as the terminal or, into a pipe, 80 columns by 24 "
        "lines; set COLUMNS and LINES to change that. NO_COLOR is respected.",
    ),
)
