"""The line on which a filter is typed, and what its words mean."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.strip import Strip
from textual.widget import Widget

from stoker.text.jobs import STATES
from stoker.text.terminal import escaped
from stoker.top.feed import View
from stoker.top.paint import Line
from stoker.top.strips import strip

_MOST_LETTERS = 200


def wanted(typed: str) -> View:
    """What the words of a filter mean: "lr state:failed group:sweep".

    A state may be cut short, as it is while it is being typed; one that is none is a plain word.
    """
    words: list[str] = []
    states: list[str] = []
    group = user = None
    for word in typed.split():
        name, colon, value = word.partition(":")
        if colon and name == "state":
            found = [s for part in value.split(",") if part for s in STATES if s.startswith(part)]
            if found or not value:
                states += found
                continue
        elif name == "group" and value:
            group = value
            continue
        elif name == "user" and value:
            user = value
            continue
        words.append(word)
    return View(" ".join(words), tuple(dict.fromkeys(states)), group, user)


class FilterLine(Widget):
    """A line to type on; it is there only while a filter is typed."""

    ALLOW_SELECT = False

    def __init__(
        self, typed: Callable[[str], None], done: Callable[[bool], None], *, id: str
    ) -> None:
        super().__init__(id=id)
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
        line: Line = [("filter: ", "bold"), (self.text[-max(1, self.size.width - 10) :], "")]
        return strip([*line, (" ", "reverse")], self.size.width)
