"""The parts of a picture that are a line or two: the summary on top, the title of the list, keys.

Pure, and shared by the live view and by `stoker top --once`.
"""

from __future__ import annotations

from stoker.text.jobs import FINAL_STATES, STATES
from stoker.top.paint import fitted, piece, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from stoker.top.paint import Glyphs, Line

_ORDER = (
    "running", "stopping", "submitted", "waiting", "held",
    *sorted(FINAL_STATES, key=STATES.index),
)  # fmt: skip
_STYLES = {"running": "green", "stopping": "magenta", "failed": "red", "lost": "red"}

# What each key does, in one word, on two lines of 80 columns; the help says more.
KEYS = (
    ("q", "quit"), ("?", "help"), ("/", "filter"), ("Enter", "job"), ("Esc", "back"),
    ("Space", "mark"), ("s", "sort"), ("l", "log"), ("m", "metric"),
    ("c", "cancel"), ("r", "retry"), ("h", "hold"), ("e", "edit"), ("p", "pause"), ("d", "drain"),
    ("+ -", "sooner/later"),
)  # fmt: skip


def summary(overview: dict[str, Any], columns: int, glyphs: Glyphs) -> Line:
    """How many jobs there are in each state, and what is unusual."""
    counts = overview.get("counts") or {}
    line: Line = [("stoker", "bold")]
    line += [
        piece(f"  {counts[state]:,} {state}", _STYLES.get(state, ""))
        for state in _ORDER
        if counts.get(state)
    ]
    if len(line) == 1:
        line.append(("  no jobs", ""))
    cpus = overview.get("cpus") or {}
    if cpus.get("used"):
        line.append(piece(f"  {glyphs.bullet} {cpus['used']}/{cpus['total']} CPU slots"))
    if overview.get("paused"):
        line.append(("  ", ""))
        line.append((" PAUSED: nothing new starts ", "reverse bold"))
    for group in overview.get("paused_groups") or ():
        line.append(piece(f"  group {group} paused", "magenta"))
    if overview.get("short"):
        line.append(piece(f"  can't start jobs: {overview['short']}", "red"))
    elif overview.get("disk"):
        line.append(piece(f"  {overview['disk']}", "magenta"))
    return fitted(line, columns)


def list_title(words: Sequence[str], columns: int, glyphs: Glyphs) -> Line:
    """A rule with words in it, over the list of jobs."""
    line: Line = [(glyphs.rule * 2, "dim")]
    for number, text in enumerate(words):
        line += [(" ", ""), piece(text, "bold" if number == 0 else ""), (" ", "")]
        line.append((glyphs.rule, "dim"))
    room = columns - width(line)
    return fitted([*line, (glyphs.rule * max(0, room), "dim")], columns)


def key_lines(columns: int) -> list[Line]:
    """The keys and what they do, on as few lines as they take."""
    lines: list[Line] = [[]]
    for key, word in KEYS:
        item: Line = [(key, "bold"), (f" {word}", "")]
        space = 2 if lines[-1] else 0
        if width(lines[-1]) + space + width(item) > columns:
            lines.append([])
            space = 0
        if space:
            lines[-1].append((" " * space, ""))
        lines[-1] += item
    return [fitted(line, columns) for line in lines]


def listed(total: int, wanted: str, sort: str, *, descending: bool, marked: int) -> list[str]:
    """What the title of the list says: how many, which, in which order."""
    words = [f"{total:,} job" + ("" if total == 1 else "s")]
    if wanted:
        words.append(f"filter: {wanted}")
    by = "state" if sort == "standing" else sort
    words.append(f"by {by}" + (", backwards" if descending else ""))
    if marked:
        words.append(f"{marked} marked")
    return words
