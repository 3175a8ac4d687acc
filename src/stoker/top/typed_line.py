"""A line on which is typed: a filter (its language is that of api.job_filter), or names of GPUs."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.strip import Strip
from textual.widget import Widget

from stoker.api.job_filter import parsed
from stoker.errors import UsageError
from stoker.text.jobs import now_ms
from stoker.text.terminal import escaped
from stoker.top.paint import Line
from stoker.top.strips import strip

_MOST_LETTERS = 200


def problem_of(typed: str) -> str:
    """What is wrong with a filter, as the daemon would say it; empty if it can be asked for."""
    try:
        parsed(typed, now_ms())
    except UsageError as error:
        return str(error)
    return ""


class TypedLine(Widget):
    """A line to type on; it is there only while it is typed."""

    ALLOW_SELECT = False

    def __init__(
        self,
        label: str,
        typed: Callable[[str], None],
        done: Callable[[bool], None],
        *,
        id: str,
    ) -> None:
        super().__init__(id=id)
        self.label = label
        self.text = ""
        self._typed = typed
        self._done = done

    def set_text(self, text: str) -> None:
        """Have this text, and tell of it if it is another."""
        shown = escaped(text)[:_MOST_LETTERS]
        if shown != self.text:
            self.text = shown
            self._typed(shown)
        self.refresh()

    def press(self, event: events.Key) -> None:
        """Take a key: what is a command elsewhere is a letter here."""
        match event.key:
            case "enter":
                self._done(True)
            case "escape" | "ctrl+c":
                self._done(False)
            case "backspace" | "ctrl+h":
                self.set_text(self.text[:-1])
            case "ctrl+u":
                self.set_text("")
            case "ctrl+w":
                self.set_text(self.text.rstrip().rpartition(" ")[0])
            case _:
                if event.is_printable and event.character:
                    self.set_text(self.text + event.character)

    def paste(self, text: str) -> None:
        """Take the first line of what is pasted."""
        self.set_text(self.text + text.partition("\n")[0].rstrip("\r"))

    def render_line(self, y: int) -> Strip:
        """The line, with the end of a long text in sight."""
        label = f"{self.label}: "
        room = max(1, self.size.width - len(label) - 2)
        line: Line = [(label, "bold"), (self.text[-room:], "")]
        return strip([*line, (" ", "reverse")], self.size.width)
