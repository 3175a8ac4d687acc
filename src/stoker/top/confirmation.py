"""Questions and help over the view: what kills is asked for twice, and only `y` means yes."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from stoker.top.paint import Line, width
from stoker.top.rows import Rows, Scroller


class Confirmation(ModalScreen[bool]):
    """Asks a question; its answer is whether `y` was pressed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", priority=True),
        Binding("n,escape,q,ctrl+c", "answer(False)", priority=True),
    ]

    def __init__(self, lines: list[Line], yes: str) -> None:
        super().__init__()
        self._lines: list[Line] = [
            *lines,
            [],
            [("y", "bold"), (f" {yes}", ""), ("    ", ""), ("n", "bold"), (" or ", ""),
             ("Esc", "bold"), (" leave it alone", "")],
        ]  # fmt: skip

    def compose(self) -> ComposeResult:
        """The question in a box."""
        rows = Rows(id="question")
        rows.border_title = "are you sure?"
        rows.put(self._lines)
        rows.styles.width = 4 + max(width(line) for line in self._lines)
        rows.styles.height = 2 + len(self._lines)
        yield rows

    @property
    def text(self) -> list[str]:
        """The question, for those who can't see the box."""
        return ["".join(text for text, _ in line) for line in self._lines]

    def action_answer(self, yes: bool) -> None:
        """Go back with the answer."""
        self.dismiss(yes)


class Pages(ModalScreen[None]):
    """Text over the view, to be read and closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter,ctrl+c", "close", priority=True),
        Binding("j,down", "scroll(1)", priority=True),
        Binding("k,up", "scroll(-1)", priority=True),
        Binding("space,pagedown", "scroll(10)", priority=True),
        Binding("pageup", "scroll(-10)", priority=True),
    ]

    def __init__(self, title: str, lines: list[Line]) -> None:
        super().__init__()
        self._title = title
        self._lines = lines

    def compose(self) -> ComposeResult:
        """The text in a box."""
        rows = Scroller(id="pages")
        rows.border_title = self._title
        rows.border_subtitle = "Esc closes"
        rows.show_all(self._lines)
        rows.styles.width = 4 + max(width(line) for line in self._lines)
        rows.styles.height = 2 + len(self._lines)
        yield rows

    def action_close(self) -> None:
        """Go back."""
        self.dismiss(None)

    def action_scroll(self, count: int) -> None:
        """Read on, or back."""
        self.query_one(Scroller).move(count)
