"""One picture of the view as text: what `stoker top --once` prints. Needs no library."""

from __future__ import annotations

import shutil

from stoker.text.jobs import now_ms
from stoker.top.feed import View, picture_of
from stoker.top.frame import list_title, listed, summary
from stoker.top.gpu_rows import gpu_lines
from stoker.top.job_rows import JobColumns
from stoker.top.paint import glyphs_of_this_terminal, printed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.api.client import Client
    from stoker.top.feed import Picture
    from stoker.top.paint import Glyphs, Line

_MOST = 10_000  # columns or rows: the environment may say anything


def size() -> tuple[int, int]:
    """Columns and rows: of the environment, else of the terminal, else the usual ones."""
    columns, rows = shutil.get_terminal_size((80, 24))
    return min(columns, _MOST), min(rows, _MOST)


def picture_text(client: Client, columns: int, rows: int, *, colours: bool) -> str:
    """The picture, so that it fits with the prompt of the shell below it."""
    picture = picture_of(client, View(limit=min(1000, max(1, rows))))
    lines = picture_lines(picture, columns, rows, glyphs_of_this_terminal())
    return "".join(printed(line, colours=colours) + "\n" for line in lines)


def picture_lines(picture: Picture, columns: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """The lines of a picture, one fewer than there are rows."""
    lines = [summary(dict(picture.overview), columns, glyphs)]
    lines += gpu_lines(
        picture.gpus, picture.histories, picture.names, columns, max(3, rows * 2 // 5), glyphs
    )
    words = listed(picture.total, "", picture.view.sort, descending=False, marked=0)
    lines.append(list_title(words, columns, glyphs))
    table = JobColumns(columns, max((job["id"] for job in picture.jobs), default=0))
    lines.append(table.title())
    now = now_ms()
    room = max(1, rows - len(lines) - 1)
    shown = picture.jobs[:room]
    if len(shown) < picture.total:
        shown = shown[: max(1, room - 1)]
    lines += [
        table.line(
            job, now, marked=False, glyphs=glyphs, starts_at_ms=picture.starts.get(job["id"])
        )
        for job in shown
    ]
    left_out = picture.total - len(shown)
    return [*lines, [(f"  and {left_out:,} more", "dim")]] if left_out > 0 else lines
