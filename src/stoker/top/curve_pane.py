"""The pane beside the log: the curve of one of the job's metrics, as it grows."""

from __future__ import annotations

from collections.abc import Callable

from stoker.api.paths import Home
from stoker.metrics.asking import Curve
from stoker.top.curve_lines import curve_lines
from stoker.top.curve_reader import CurveNews, CurveReader
from stoker.top.paint import Glyphs, Line
from stoker.top.rows import Rows


class CurvePane(Rows):
    """It is there only while its job has metrics, and its user wants to see one of them."""

    def __init__(
        self, home: Home, glyphs: Glyphs, tell: Callable[[CurveNews], None], *, id: str
    ) -> None:
        super().__init__(id=id)
        self._home = home
        self._glyphs = glyphs
        self._tell = tell
        self._reader: CurveReader | None = None
        self._curves: list[Curve] = []
        self._chosen = ""  # the metric that was asked for last; another job may not have it
        self._hidden = False
        self.job_id: int | None = None
        self.is_beside = False  # the log, and not below it

    def open(self, job_id: int) -> None:
        """Show the metrics of this job; the room stays until it is known to have none."""
        if job_id == self.job_id:
            return
        self._stop()
        self.job_id = job_id
        self.put([])
        self._reader = CurveReader(self._home, job_id, self._tell)
        self._reader.start()

    def close(self) -> None:
        """Show none."""
        self._stop()
        self._draw()

    def take(self, news: CurveNews) -> None:
        """Show what the reader has brought."""
        if news.job_id == self.job_id:
            self._curves = news.curves
            self._draw()

    def next_metric(self) -> bool:
        """Show the next metric; after the last one none. False if the job has none."""
        names = [curve.summary.name for curve in self._curves]
        if not names:
            return False
        place = self._place() + 1
        if self._hidden:
            self._hidden, self._chosen = False, names[0]
        elif place == len(names):
            self._hidden = True
        else:
            self._chosen = names[place]
        self._draw()
        return True

    def on_resize(self) -> None:
        """Draw anew."""
        self._draw()

    def on_unmount(self) -> None:
        """The view is closed."""
        self._stop()

    def _stop(self) -> None:
        if self._reader is not None:
            self._reader.stop()
        self._reader = self.job_id = None
        self._curves = []

    def _place(self) -> int:
        names = [curve.summary.name for curve in self._curves]
        return names.index(self._chosen) if self._chosen in names else 0

    def _draw(self) -> None:
        self.display = bool(self._curves) and not self._hidden
        if not self.display:
            self.put([])
            return
        columns, rows = self.size
        edge: Line = [(f" {self._glyphs.edge} ", "dim")] if self.is_beside else []
        place, room = self._place(), columns - 3 * self.is_beside
        lines = curve_lines(self._curves, place, room, rows, self._glyphs)
        lines += [[] for _ in range(rows - len(lines))]
        self.put([edge + line for line in lines])
