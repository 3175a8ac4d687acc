"""The live view without a terminal: keys go in by Textual's pilot, lines of text come out."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.pilot import Pilot

from own_loop import run_apart
from stoker.top.app import Top
from stoker.top.confirmation import Confirmation
from stoker.top.paint import BLOCKS, plain
from stoker.top.rows import Rows
from stoker_home import StokerHome
from waiting import PATIENCE_S


class LiveView:
    """What somebody at the keyboard can do and see."""

    def __init__(self, app: Top, pilot: Pilot[None], first_id: int) -> None:
        self.app = app
        self._pilot = pilot
        self._first_id = first_id  # Ids are told and asked for as if it were 1.

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        await self._pilot.press(*keys)

    async def type_at_once(self, text: str) -> None:
        """Letters that arrive together, as they do by a paste or over a slow line."""
        from textual import events

        for letter in text:
            self.app.post_message(events.Key(letter, letter))
        await self._pilot.pause()

    async def resize(self, columns: int, rows: int) -> None:
        """Another size of the terminal."""
        await self._pilot.resize_terminal(columns, rows)

    async def until(self, fact: Callable[[], Any], what: str = "") -> None:
        """Wait until something has come true."""
        deadline = time.monotonic() + PATIENCE_S
        while not fact():
            assert time.monotonic() < deadline, f"{what}\n" + "\n".join(self.lines)
            await asyncio.sleep(0.01)

    async def until_text(self, text: str) -> None:
        """Wait until a text is on the screen, in which #1 is the id of the first job."""
        text = self._with_ids(text)
        await self.until(lambda: any(text in line for line in self.lines), f"no {text!r} in")

    async def until_gone(self, text: str) -> None:
        """Wait until such a text is not on the screen any more."""
        text = self._with_ids(text)
        await self.until(lambda: not any(text in line for line in self.lines), f"{text!r} still in")

    async def until_cursor(self, job_id: int) -> None:
        """Wait until the cursor is on a job."""
        await self.until(lambda: self.cursor == job_id, f"the cursor is not on {job_id}")

    async def until_ids(self, *ids: int) -> None:
        """Wait until these jobs are in sight, in this order."""
        await self.until(lambda: self.ids == list(ids), f"not {ids} in")

    def _with_ids(self, text: str) -> str:
        return re.sub(r"#(\d+)", lambda nth: str(self._first_id + int(nth[1]) - 1), text)

    @property
    def lines(self) -> list[str]:
        """What is on the screen, from top to bottom."""
        screen = self.app.screen
        found = [plain(line) for rows in screen.query(Rows) if rows.display for line in rows.shown]
        if isinstance(screen, Confirmation):
            return screen.text
        typed = [line for line in (self.app.filter_line, self.app.gpu_line) if line.display]
        return found + [f"{line.label}: {line.text}" for line in typed]

    @property
    def jobs(self) -> list[str]:
        """The rows of the list."""
        return [plain(line) for line in self.app.table.shown[1:]]

    @property
    def ids(self) -> list[int]:
        """The ids in the list, as far as it has come."""
        shown = [row for row in self.jobs if not row.startswith("  ...")]
        return [int(row[1:].split()[0]) - self._first_id + 1 for row in shown]

    @property
    def cursor(self) -> int | None:
        """The id of the job under the cursor, as it is drawn."""
        for line in self.app.table.shown[1:]:
            if line and "reverse" in line[0][1] and not plain(line).startswith("  ..."):
                return int(plain(line)[1:].split()[0]) - self._first_id + 1
        return None

    @property
    def pane(self) -> list[str]:
        """The lines of the pane that is open."""
        panes = (self.app.log_pane, self.app.details_pane)
        return [plain(line).rstrip() for pane in panes if pane.display for line in pane.shown]


def drive(
    stoker: StokerHome,
    scenario: Callable[[LiveView], Awaitable[None]],
    columns: int = 80,
    rows: int = 24,
) -> App[None]:
    """Run the live view on a Stoker, and somebody at its keyboard."""
    app = Top(stoker.home, BLOCKS)

    async def run() -> None:
        async with app.run_test(size=(columns, rows)) as pilot:
            await scenario(LiveView(app, pilot, stoker.first_id))

    run_apart(run())
    app.feed.join(PATIENCE_S)
    assert not app.feed.is_alive(), "the feed has ended with its view"
    return app
