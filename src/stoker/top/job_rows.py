"""Jobs as lines of text, in columns whose widths depend on the terminal and not on the jobs.

Pure. Widths that followed what happens to be shown would jump with every scroll.
"""

from __future__ import annotations

from stoker.text import duration_text
from stoker.text.jobs import gpus_text, is_suspended, note, state_shown, time_text
from stoker.top.paint import cell, fitted, piece, spaced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.top.paint import Glyphs, Line

    Job = dict[str, Any]

STATE_STYLES = {
    "held": "dim", "submitted": "magenta", "running": "green", "stopping": "magenta",
    "succeeded": "dim", "stopped": "dim", "failed": "bold red", "cancelled": "dim",
    "skipped": "dim", "lost": "bold red",
}  # fmt: skip


class JobColumns:
    """The columns of the list of jobs, for one width of the terminal."""

    def __init__(self, columns: int, largest_id: int) -> None:
        self._columns = columns
        self._id = max(4, len(str(largest_id)))
        self._state = 9
        self._gpus = 7 if columns >= 70 else 4
        self._time = 7
        self._starts = 8 if columns >= 110 else 0
        self._priority = 4 if columns >= 90 else 0
        rest = columns - 2 - self._id - self._state - self._gpus - self._time - 4
        rest -= self._priority + 1 if self._priority else 0
        rest -= self._starts + 1 if self._starts else 0
        self._group = min(16, rest // 6) if columns >= 100 else 0
        rest -= self._group + 1 if self._group else 0
        self._name = max(0, min(28, rest * 4 // 10)) if rest >= 12 else 0
        rest -= self._name + 1 if self._name else 0
        # With room enough the command has a column; else it stands where there is no note.
        self._command = rest // 2 if rest >= 56 else 0
        rest -= self._command + 1 if self._command else 0
        self._rest = max(0, rest)

    def title(self) -> Line:
        """The names of the columns."""
        line = spaced(
            cell("ID", self._id, "dim", right=True),
            cell("STATE", self._state, "dim"),
            cell("NAME", self._name, "dim"),
            cell("GROUP", self._group, "dim"),
            cell("PRI", self._priority, "dim", right=True),
            cell("GPUS", self._gpus, "dim"),
            cell("TIME", self._time, "dim", right=True),
            cell("STARTS", self._starts, "dim"),
            cell("COMMAND", self._command, "dim"),
            [("NOTE", "dim")],
        )
        return fitted([("  ", ""), *line], self._columns)

    def line(
        self,
        job: Job,
        now_ms: int,
        *,
        marked: bool,
        glyphs: Glyphs,
        starts_at_ms: int | None = None,
    ) -> Line:
        """One job, and when it should start if that is known."""
        state = str(job["state"])
        style = "magenta" if is_suspended(job) else STATE_STYLES.get(state, "")
        faint = "dim" if state in ("stopped", "cancelled", "skipped") else ""
        command, words = job.get("command") or "", note(job)
        if words or self._command:
            last = piece(words, style if "red" in style else "dim")
        else:
            last = piece(command, faint)
        line = spaced(
            cell(str(job["id"]), self._id, faint, right=True),
            cell(state_shown(job), self._state, style),
            cell(job.get("name") or "", self._name, faint or "bold"),
            cell(job.get("group") or "", self._group, faint),
            cell(str(job.get("priority") or ""), self._priority, faint, right=True),
            cell(gpus_text(job), self._gpus, faint),
            cell(time_text(job, now_ms).replace(" ", ""), self._time, faint, right=True),
            cell(_starts(starts_at_ms, now_ms), self._starts),
            cell(command, self._command, faint),
            [last],
        )
        return fitted([(glyphs.mark if marked else " ", "bold"), (" ", ""), *line], self._columns)

    def absent(self) -> Line:
        """A row that is still on its way."""
        return fitted([("  ...", "dim")], self._columns)


def _starts(at_ms: int | None, now_ms: int) -> str:
    if at_ms is None:
        return ""
    in_ms = at_ms - now_ms
    return f"in {duration_text(in_ms).split()[0]}" if in_ms > 0 else "soon"
