"""What the panes of the live view have in common: widgets that are drawn line by line.

Only lines that have changed are drawn again: over a slow line that is what makes it quick.
"""

from __future__ import annotations

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from stoker.top.paint import Line, wrapped
from stoker.top.strips import strip


class Rows(Widget):
    """Shows lines, from the first on; what does not fit is not shown."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._shown: list[Line] = []

    @property
    def shown(self) -> list[Line]:
        """The lines on the screen."""
        return self._shown

    def put(self, lines: list[Line]) -> None:
        """Show these lines."""
        before, self._shown = self._shown, lines
        columns, rows = self.size
        changed = [
            Region(0, y, columns, 1)
            for y in range(min(rows, max(len(before), len(lines))))
            if before[y : y + 1] != lines[y : y + 1]
        ]
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        return strip(self._shown[y] if y < len(self._shown) else [], self.size.width)


class Movable(Rows, can_focus=True):
    """Rows through which its user moves."""

    def move(self, count: int) -> None:
        """Move by so many rows."""
        raise NotImplementedError

    @property
    def rows_in_sight(self) -> int:
        """How many there is room for."""
        return max(1, self.size.height)

    def page(self, pages: int) -> None:
        """Move by what fits on the screen."""
        self.move(pages * max(1, self.rows_in_sight - 1))

    def on_mouse_scroll_down(self) -> None:
        """The wheel."""
        self.move(3)

    def on_mouse_scroll_up(self) -> None:
        """The wheel."""
        self.move(-3)


class Scroller(Movable):
    """Shows a part of more lines than fit, wrapped, and follows their end if it is told to."""

    follows_at_end = False  # whether it is followed again from its end on

    def __init__(self, *, id: str, indent: int = 0) -> None:
        super().__init__(id=id)
        self._indent = indent  # of what is wrapped
        self._unwrapped: list[Line] = []
        self._all: list[Line] = []
        self._top = 0
        self.follows = False

    def show_all(self, lines: list[Line]) -> None:
        """Have these lines to show; the place stays, unless the end is followed."""
        self._unwrapped = lines
        self._wrap()

    def move(self, count: int) -> None:
        """Move by so many lines; up is the end of following."""
        last = self._last_top()
        self._top = min(last, max(0, self._top + count))
        if count < 0 and self._top < last:
            self.follows = False
        elif count > 0 and self._top >= last:
            self.follows = self.follows_at_end
        self._clamp()

    def to_start(self) -> None:
        """Show the beginning."""
        self.move(-len(self._all) - 1)

    def to_end(self) -> None:
        """Show the end."""
        self.move(len(self._all) + 1)

    def on_resize(self) -> None:
        """Wrap anew, and keep the place as far as there is one."""
        self._wrap()

    def _wrap(self) -> None:
        columns = self.size.width
        self._all = [
            row for line in self._unwrapped for row in wrapped(line, columns, self._indent)
        ]
        self._clamp()

    def _last_top(self) -> int:
        return max(0, len(self._all) - self.rows_in_sight)

    def _clamp(self) -> None:
        last = self._last_top()
        self._top = last if self.follows else min(self._top, last)
        self.put(self._all[self._top : self._top + self.rows_in_sight])
