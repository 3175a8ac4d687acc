"""The way into the live view: a first picture at once, drawn plainly, while Textual is loaded.

Loading it takes longer than all the rest; a first picture is shown meanwhile.
"""

from __future__ import annotations

import gc
import os
import sys

from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.text.terminal import has_terminal, wants_colour
from stoker.top.feed import Picture, View, picture_of
from stoker.top.once import picture_lines, size
from stoker.top.paint import glyphs_of_this_terminal, printed

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
_LEAVE = "\x1b[?1049l\x1b[?25h"


def run() -> int:
    """Run the live view until its user quits; its exit code."""
    if not os.environ.get("NO_COLOR", "1"):
        del os.environ["NO_COLOR"]  # Empty means that colours are welcome; Textual thinks not.
    if not has_terminal(sys.stderr):
        os.dup2(1, 2)  # Textual draws on stderr, which may lead elsewhere.
    home = Home.from_environment()
    with Client(home) as client:
        picture = picture_of(client, View())
    glyphs = glyphs_of_this_terminal()
    _draw(picture)
    try:
        # Nothing that is loaded now becomes garbage: to look for some takes a fifth of the time.
        gc.disable()
        from stoker.top.app import Top

        gc.freeze()
        gc.enable()
        app = Top(home, glyphs, picture)
    except BaseException:
        _write(_LEAVE)
        raise
    app.run()
    return app.return_code or 0


def _draw(picture: Picture) -> None:
    columns, rows = size()
    lines = picture_lines(picture, columns, rows, glyphs_of_this_terminal())
    colours = wants_colour()
    _write(_ENTER + "\n".join(printed(line, colours=colours) for line in lines[: rows - 1]))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
