"""The list of jobs: a window on it, the cursor, and the marks.

Only what is in sight, and a little around it, is ever asked for. The cursor stays with its job
when the list moves beneath it; until it is moved, it stays at the top.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from textual import events
from textual.message import Message

from stoker.text.jobs import now_ms
from stoker.top.feed import Picture, View
from stoker.top.job_rows import JobColumns
from stoker.top.paint import Glyphs, Line, pointed_at
from stoker.top.rows import Movable

Job = dict[str, Any]

SORTS = (
    "standing", "id", "name", "state", "group", "priority", "user", "started", "ended", "time",
)  # fmt: skip
_AROUND = 40  # rows before and after those in sight that are asked for with them


class JobTable(Movable):
    """A window on the list of jobs."""

    class Looked(Message):
        """Another part of the list is to be seen."""

        def __init__(self, view: View) -> None:
            super().__init__()
            self.view = view

    class Moved(Message):
        """The cursor stands on another job, or on what is new of the same."""

    def __init__(self, glyphs: Glyphs, *, id: str) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self.view = View(limit=_AROUND)
        self.total = 0
        self.marks: dict[int, Job] = {}
        self._jobs: dict[int, Job] = {}  # by their place in the list
        self._starts: Mapping[int, int] = {}
        self._largest_id = 0
        self._cursor = 0
        self._top = 0
        self._is_at_rest = True  # the cursor was not moved yet: it stays at the top
        self._chosen: int | None = None  # the job that it was put on, once that is known
        self._then: Callable[[Job], None] | None = None

    # ------------------------------------------------------------------ what is where

    @property
    def cursor_job(self) -> Job | None:
        """The job under the cursor."""
        return self._jobs.get(self._cursor)

    @property
    def targets(self) -> list[Job]:
        """The jobs that a key acts on: the marked ones, else the one under the cursor."""
        if self.marks:
            return list(self.marks.values())
        job = self.cursor_job
        return [] if job is None else [job]

    @property
    def rows_in_sight(self) -> int:
        """How many jobs there is room for; the first row names the columns."""
        return max(1, self.size.height - 1)

    def when_there(self, then: Callable[[Job], None]) -> None:
        """Do something with the job under the cursor, once it has come."""
        job = self.cursor_job
        if job is not None:
            then(job)
        else:
            self._then = then if self.total else None

    def take(self, picture: Picture) -> None:
        """Show what the daemon told."""
        if replace(picture.view, offset=0, limit=1) != replace(self.view, offset=0, limit=1):
            return  # The answer to an outdated question.
        self.total = picture.total
        self._starts = picture.starts
        start = picture.view.offset
        self._jobs = {start + place: job for place, job in enumerate(picture.jobs)}
        self._largest_id = max([self._largest_id, *(job["id"] for job in picture.jobs)])
        for job in picture.jobs:
            if job["id"] in self.marks:
                self.marks[job["id"]] = job
        self._stay_with_the_job()
        self._clamp()
        here = self.cursor_job
        if self._then is not None and here is not None:
            then, self._then = self._then, None
            then(here)

    def _stay_with_the_job(self) -> None:
        if self._is_at_rest:
            return
        for place, job in self._jobs.items():
            if job["id"] == self._chosen:
                # The row on the screen stays where it is as far as the list allows that.
                self._top = max(0, self._top + place - self._cursor)
                self._cursor = place
                return
        here = self.cursor_job
        self._chosen = None if here is None else here["id"]

    def _clamp(self) -> None:
        """Have the cursor on the list, and the window around the cursor; ask for what is new."""
        rows = self.rows_in_sight
        self._cursor = min(max(0, self._cursor), max(0, self.total - 1))
        self._top = min(self._top, max(0, self.total - rows))
        self._top = min(max(self._top, self._cursor - rows + 1), self._cursor)
        self._look()
        self.draw()
        self.post_message(self.Moved())

    def _look(self) -> None:
        rows, known = self.rows_in_sight, self.view
        limit = rows + 2 * _AROUND
        begins = known.offset <= max(0, self._top - 1)
        ends = self._top + rows < known.offset + known.limit
        if not begins or not ends or known.limit != limit:
            self.view = replace(known, offset=max(0, self._top - _AROUND), limit=limit)
            self.post_message(self.Looked(self.view))

    # ------------------------------------------------------------------ keys

    def move(self, count: int) -> None:
        """Move the cursor by so many rows."""
        self._then = None
        self._cursor = min(max(0, self._cursor + count), max(0, self.total - 1))
        job = self.cursor_job
        self._chosen = None if job is None else job["id"]
        self._is_at_rest = False
        self._clamp()

    def to_start(self) -> None:
        """The cursor to the first job, where it stays whatever comes there."""
        self.move(-self.total)
        self._is_at_rest = True

    def to_end(self) -> None:
        """The cursor to the last job."""
        self.move(self.total)

    def mark(self) -> None:
        """Mark the job under the cursor, or unmark it, and go to the next."""
        job = self.cursor_job
        if job is not None:
            if self.marks.pop(job["id"], None) is None:
                self.marks[job["id"]] = job
            self.move(1)

    def unmark_all(self) -> None:
        """Let go of all marks."""
        self.marks.clear()
        self._clamp()

    def look_for(self, text: str) -> None:
        """Show only what matches a filter, sorted as before."""
        if text != self.view.text:
            self._look_anew(replace(self.view, text=text))

    def sort_next(self) -> None:
        """Sort by the next of the columns."""
        place = SORTS.index(self.view.sort)
        sort = SORTS[(place + 1) % len(SORTS)]
        self._look_anew(replace(self.view, sort=sort, descending=False))

    def sort_backwards(self) -> None:
        """Turn the order round."""
        self._look_anew(replace(self.view, descending=not self.view.descending))

    def _look_anew(self, view: View) -> None:
        self._cursor = self._top = 0
        self._is_at_rest = True
        self._jobs = {}
        self.view = replace(view, offset=0, limit=self.rows_in_sight + 2 * _AROUND)
        self.post_message(self.Looked(self.view))
        self.draw()

    # ------------------------------------------------------------------ what the view asks of it

    def on_resize(self) -> None:
        """There may be room for more, or less."""
        self._clamp()

    def on_click(self, event: events.Click) -> None:
        """The cursor goes where the mouse points."""
        place = self._top + event.y - 1
        if event.y > 0 and place < self.total:
            self.move(place - self._cursor)

    def draw(self) -> None:
        """Show the window as it is now."""
        width = self.size.width
        columns = JobColumns(width, self._largest_id)
        now = now_ms()
        lines: list[Line] = [columns.title()]
        for place in range(self._top, min(self.total, self._top + self.rows_in_sight)):
            job = self._jobs.get(place)
            if job is None:
                line = columns.absent()
            else:
                marked = job["id"] in self.marks
                starts = self._starts.get(job["id"]) if job["state"] == "waiting" else None
                line = columns.line(
                    job, now, marked=marked, glyphs=self._glyphs, starts_at_ms=starts
                )
            lines.append(pointed_at(line) if place == self._cursor else line)
        self.put(lines)
