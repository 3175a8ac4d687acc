"""The pane under the list: the log of a job, followed; or all that is known of it."""

from __future__ import annotations

from collections.abc import Callable

from stoker.api.paths import Home
from stoker.top.log_reader import LogNews, LogReader
from stoker.top.paint import Line
from stoker.top.rows import Scroller


class LogPane(Scroller):
    """A log, wrapped to the width of the pane; its end is followed until it is scrolled up."""

    follows_at_end = True

    def __init__(self, home: Home, tell: Callable[[LogNews], None], *, id: str) -> None:
        super().__init__(id=id)
        self._home = home
        self._tell = tell
        self._reader: LogReader | None = None
        self._news: LogNews | None = None
        self.job_id: int | None = None

    def open(self, job_id: int) -> None:
        """Show the log of this job from now on."""
        if job_id == self.job_id:
            return
        self.close()
        self.job_id = job_id
        self.follows = True
        self._reader = LogReader(self._home, job_id, self._tell)
        self._reader.start()

    def close(self) -> None:
        """Show none."""
        if self._reader is not None:
            self._reader.stop()
        self._reader = self._news = self.job_id = None
        self.show_all([])

    def take(self, news: LogNews) -> None:
        """Show what the reader has brought."""
        if news.job_id == self.job_id:
            self._news = news
            before: list[Line] = [[(news.before, "dim")]] if news.before else []
            self.show_all(before + news.lines)

    def on_unmount(self) -> None:
        """The view is closed."""
        self.close()

    @property
    def title(self) -> str:
        """What is shown, in words."""
        state = self._news.state if self._news is not None else ""
        follows = "following" if self.follows else "not following: G goes to the end"
        if self._news is not None and self._news.has_ended:
            follows = ""
        parts = [f"log of job {self.job_id}", state, follows]
        return ", ".join(part for part in parts if part)
