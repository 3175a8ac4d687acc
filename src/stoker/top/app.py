"""The live view: GPUs on top, jobs below, a pane for a log or a job, keys at the bottom.

It uses the terminal's own colours, so that it looks right on a dark and on a light one, and none
at all with NO_COLOR. Nothing here waits for the daemon or for a disk: threads do, and tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message

from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.errors import StokerError
from stoker.text.jobs import title
from stoker.top import actions
from stoker.top.confirmation import Confirmation, Pages
from stoker.top.curve_pane import CurvePane
from stoker.top.curve_reader import CurveNews
from stoker.top.details_pane import DetailsPane
from stoker.top.feed import Feed, Picture
from stoker.top.frame import key_lines, list_title, listed, summary
from stoker.top.gpu_rows import gpu_lines
from stoker.top.job_table import JobTable
from stoker.top.keys import HELP, KEYS
from stoker.top.layout import CSS
from stoker.top.log_pane import LogPane
from stoker.top.log_reader import LogNews
from stoker.top.paint import Glyphs, Line, fitted, piece, wrapped
from stoker.top.rows import Rows, Scroller
from stoker.top.typed_line import TypedLine, problem_of

_MESSAGE_S = 6.0
_MESSAGE_ROWS = 3
_BESIDE_COLUMNS = 100  # from which on there is room for a curve beside a log


class Top(App[None]):
    """`stoker top`."""

    ENABLE_COMMAND_PALETTE = False
    CSS = CSS
    # All of them are for the app itself, so that keys that arrive together, by a paste or over a
    # slow line, take effect one after the other.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(keys, action, priority=True) for keys, action in KEYS
    ]

    class Answered(Message):
        """A thread has brought something; `then`, which shows it, is called in the view's own."""

        def __init__(self, then: Callable[[], None]) -> None:
            super().__init__()
            self.then = then

    def __init__(self, home: Home, glyphs: Glyphs, picture: Picture | None = None) -> None:
        super().__init__(ansi_color=True)
        self.home = home
        self.glyphs = glyphs
        self.picture = picture
        self.lost = ""
        self._words: Line = []
        self._words_until = 0.0
        self.head = Rows(id="summary")
        self.gpu_panel = Rows(id="gpus")
        self.list_title = Rows(id="title")
        self.pane_title = Rows(id="pane_title")
        self.told = Rows(id="message")
        self.foot = Rows(id="keys")
        self.table = JobTable(glyphs, id="jobs")
        self.log_pane = LogPane(home, self._log_read, id="log")
        self.curve_pane = CurvePane(home, glyphs, self._curves_read, id="curve")
        self.output = Container(self.log_pane, self.curve_pane, id="output")
        self.details_pane = DetailsPane(self._ask, id="details")
        self._problem = ""  # why what is typed is no filter yet
        self.filter_line = TypedLine("filter", self._filter_typed, self._filter_done, id="filter")
        self.gpu_line = TypedLine(
            "GPUs to drain or to resume", lambda text: None, self._gpus_done, id="named_gpus"
        )
        self.feed = Feed(home, self.table.view, self._brought, self._is_lost)

    # ------------------------------------------------------------------ the parts

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.head
        yield self.gpu_panel
        yield self.list_title
        yield self.table
        yield self.filter_line
        yield self.gpu_line
        yield self.pane_title
        yield self.output
        yield self.details_pane
        yield self.told
        yield self.foot

    def on_mount(self) -> None:
        """Begin to listen."""
        for line in (self.filter_line, self.gpu_line, self.told):
            line.display = False
        self._hide_panes()
        self.screen.set_focus(self.table)
        self.feed.start()
        if self.picture is not None:
            self.table.take(self.picture)
            self._draw()
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        """Listen no more."""
        self.feed.stop()

    def on_resize(self) -> None:
        """Lay out anew."""
        self.call_after_refresh(self._draw)

    async def on_event(self, event: events.Event) -> None:
        """While a line is typed, every key is a letter of it."""
        is_typed = isinstance(event, events.Key | events.Paste) and not event.is_forwarded
        line = next((one for one in (self.filter_line, self.gpu_line) if one.display), None)
        if is_typed and line is not None and len(self.screen_stack) == 1:
            if isinstance(event, events.Paste):
                line.paste(event.text)
            elif isinstance(event, events.Key):
                line.press(event)
            return
        await super().on_event(event)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A question that is being asked has the keys for itself."""
        return len(self.screen_stack) == 1

    def _tick(self) -> None:
        """Times go on though nothing happens."""
        if self._words and time.monotonic() > self._words_until:
            self._words = []
        self._draw()
        self.table.draw()

    # ------------------------------------------------------------------ what threads bring

    def _in_view(self, then: Callable[[], None]) -> None:
        self.post_message(self.Answered(then))

    def _brought(self, picture: Picture) -> None:
        self._in_view(lambda: self._show(picture))

    def _is_lost(self, words: str) -> None:
        self._in_view(lambda: self._show(None, words))

    def _log_read(self, news: LogNews) -> None:
        self._in_view(lambda: self._show_log(news))

    def _curves_read(self, news: CurveNews) -> None:
        self._in_view(lambda: self.curve_pane.take(news))

    def _show(self, picture: Picture | None, lost: str = "") -> None:
        self.lost = lost
        if picture is not None:
            self.picture = picture
            self.table.take(picture)
            self.details_pane.renew()
        self._draw()

    def _show_log(self, news: LogNews) -> None:
        self.log_pane.take(news)
        self._draw_pane_title()

    def on_top_answered(self, message: Answered) -> None:
        """Go on with what was answered."""
        message.then()

    def on_job_table_looked(self, message: JobTable.Looked) -> None:
        """Have another part of the list brought."""
        self.feed.look(message.view)

    def on_job_table_moved(self) -> None:
        """The pane shows the job under the cursor, whichever that is."""
        job = self.table.cursor_job
        if job is not None and self.table.has_focus:
            if self.log_pane.display:
                self._show_output(job["id"])
            elif self.details_pane.display and job["id"] != self.details_pane.job_id:
                self.details_pane.open(job["id"])
                self._draw_pane_title()
        self._draw_list_title()

    # ------------------------------------------------------------------ drawing

    def _draw(self) -> None:
        columns, rows = self.size
        picture = self.picture
        self.curve_pane.is_beside = columns >= _BESIDE_COLUMNS
        self.output.set_class(self.curve_pane.is_beside, "beside")
        if self.lost:
            self.head.put([fitted([piece(f" {self.lost} ", "reverse bold")], columns)])
        elif picture is None:
            self.head.put([[("stoker", "bold"), ("  asking the daemon ...", "dim")]])
        else:
            self.head.put([summary(dict(picture.overview), columns, self.glyphs)])
        if picture is not None:
            lines = gpu_lines(
                picture.gpus,
                picture.histories,
                picture.names,
                columns,
                max(3, rows * 2 // 5),
                self.glyphs,
            )
            self.gpu_panel.styles.height = len(lines)
            self.gpu_panel.put(lines)
        self._draw_list_title()
        self._draw_pane_title()
        self._draw_keys()

    def _draw_list_title(self) -> None:
        view = self.table.view
        refused = self._problem or (self.picture.refused if self.picture else "")
        words = listed(
            self.table.total,
            self.filter_line.text.strip(),
            view.sort,
            descending=view.descending,
            marked=len(self.table.marks),
        )
        if refused:
            words = [refused]
        self.list_title.put([list_title(words, self.size.width, self.glyphs)])

    def _draw_pane_title(self) -> None:
        words = ""
        if self.log_pane.display:
            words = self.log_pane.title
        elif self.details_pane.display:
            words = f"job {self.details_pane.job_id}"
        if words:
            line = list_title([words], self.size.width, self.glyphs)
            self.pane_title.put([line])

    def _draw_keys(self) -> None:
        columns, rows = self.size
        lines = key_lines(columns)[: max(1, rows // 10)]
        told = wrapped(self._words, columns)[:_MESSAGE_ROWS] if self._words else []
        self.told.display = bool(told)
        self.told.styles.height = len(told)
        self.told.put(told)
        self.foot.styles.height = len(lines)
        self.foot.put(lines)

    def say(self, words: str, *, wrong: bool = False) -> None:
        """Tell something for a while, above the keys."""
        self._words = [piece(words, "bold red" if wrong else "bold")]
        self._words_until = time.monotonic() + _MESSAGE_S
        self._draw_keys()

    @property
    def message(self) -> str:
        """What was told last, while it is shown."""
        return "".join(text for text, _ in self._words)

    # ------------------------------------------------------------------ moving about

    def _reader(self) -> Scroller | None:
        """The pane, if the keyboard is in it."""
        for pane in (self.log_pane, self.details_pane):
            if pane.display and pane.has_focus:
                return pane
        return None

    def action_move(self, count: int) -> None:
        """A row down, or up."""
        (self._reader() or self.table).move(count)
        self._draw_pane_title()

    def action_page(self, count: int) -> None:
        """A page down, or up."""
        (self._reader() or self.table).page(count)
        self._draw_pane_title()

    def action_to_start(self) -> None:
        """To the first."""
        (self._reader() or self.table).to_start()
        self._draw_pane_title()

    def action_to_end(self) -> None:
        """To the last; a log is followed from there."""
        (self._reader() or self.table).to_end()
        self._draw_pane_title()

    def action_mark(self) -> None:
        """Mark a job, or read on in the pane."""
        if self._reader() is None:
            self.table.mark()
        else:
            self.action_page(1)

    def action_other_pane(self) -> None:
        """The keyboard to the other pane."""
        pane = self.log_pane if self.log_pane.display else self.details_pane
        if pane.display and not pane.has_focus:
            self.screen.set_focus(pane)
        else:
            self.screen.set_focus(self.table)

    def action_step_back(self) -> None:
        """Close what was opened last; else forget the filter, then the marks."""
        if self.log_pane.display or self.details_pane.display:
            self._close_pane()
        elif self.filter_line.text:
            self.filter_line.set_text("")
        elif self.table.marks:
            self.table.unmark_all()

    # ------------------------------------------------------------------ filter, sort, help

    def action_filter(self) -> None:
        """Type a filter."""
        self.filter_line.display = True

    def _filter_typed(self, text: str) -> None:
        """Show what matches, letter by letter; a word that is not complete changes nothing."""
        self._problem = problem_of(text)
        if not self._problem:
            self.table.look_for(text)
        self._draw_list_title()

    def _filter_done(self, kept: bool) -> None:
        """Back to the list; a filter that was given up is forgotten."""
        if not kept:
            self.filter_line.set_text("")
        self.filter_line.display = False

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.table.sort_next()
        self._draw_list_title()

    def action_sort_backwards(self) -> None:
        """Turn the order round."""
        self.table.sort_backwards()
        self._draw_list_title()

    def action_help(self) -> None:
        """Show what the keys do."""
        self.push_screen(Pages("keys", HELP))

    def action_redraw(self) -> None:
        """Draw all of the screen again."""
        self.screen.refresh(layout=True)

    # ------------------------------------------------------------------ the pane

    def action_log(self) -> None:
        """Show the log of the job under the cursor, or close it."""
        if self.log_pane.display:
            self._close_pane()
        else:
            self.table.when_there(self._open_log)

    def _open_log(self, job: dict[str, Any]) -> None:
        self._close_pane()
        self.pane_title.display = self.output.display = self.log_pane.display = True
        self._show_output(job["id"])
        self.screen.set_focus(self.log_pane)
        self._draw_pane_title()

    def _show_output(self, job_id: int) -> None:
        self.log_pane.open(job_id)
        self.curve_pane.open(job_id)

    def action_metric(self) -> None:
        """Show the next metric of the job, beside its log."""
        if not self.log_pane.display:
            self.table.when_there(self._open_log)
        elif not self.curve_pane.next_metric():
            self.say(f"job {self.curve_pane.job_id} has no metrics so far")

    def action_details(self) -> None:
        """Show all that is known of the job under the cursor."""
        self.table.when_there(self._open_details)

    def _open_details(self, job: dict[str, Any]) -> None:
        self._close_pane()
        self.pane_title.display = self.details_pane.display = True
        self.screen.set_focus(self.details_pane)
        self.details_pane.open(job["id"])
        self._draw_pane_title()

    def _close_pane(self) -> None:
        self._hide_panes()
        self.log_pane.close()
        self.curve_pane.close()
        self.details_pane.close()
        self.screen.set_focus(self.table)

    def _hide_panes(self) -> None:
        panes = (self.output, self.log_pane, self.curve_pane, self.details_pane, self.pane_title)
        for part in panes:
            part.display = False

    # ------------------------------------------------------------------ requests

    def _ask(self, question: Callable[[Client], Any], then: Callable[[Any], None]) -> None:
        """Ask the daemon in a thread, and go on here with the answer; an error is told."""

        def in_thread() -> None:
            try:
                with Client(self.home, autostart=False) as client:
                    answer = question(client)
            except StokerError as error:
                words = error.message + (f"; {error.hint}" if error.hint else "")
                self._in_view(lambda: self.say(words, wrong=True))
            else:
                self._in_view(lambda: then(answer))

        self.run_worker(in_thread, thread=True, exit_on_error=False)

    def _act(self, choose: Callable[[list[dict[str, Any]]], actions.Action]) -> None:
        """Act on the marked jobs, or the one under the cursor; the action may depend on them."""

        def give(_: dict[str, Any]) -> None:
            jobs = self.table.targets
            action = choose(jobs)
            fitting = [job for job in jobs if job["state"] in action.states]
            if not fitting:
                which = title(jobs[0]) if len(jobs) == 1 else "each of these jobs"
                self.say(f"{which} is {jobs[0]['state']}: {action.only}", wrong=True)
            elif action.asks is None:
                self._give(action, fitting)
            else:
                asks, columns = action.asks, max(20, self.size.width - 8)

                def confirm(asked: tuple[list[Line], str]) -> None:
                    self.push_screen(
                        Confirmation(*asked),
                        lambda sure: self._give(action, fitting) if sure else None,
                    )

                self._ask(lambda client: asks(client, fitting, columns), confirm)

        self.table.when_there(give)

    def _give(self, action: actions.Action, jobs: list[dict[str, Any]]) -> None:
        self._ask(lambda client: action.give(client, jobs), self._is_done)

    def _is_done(self, words: str) -> None:
        self.table.unmark_all()
        self.say(words)

    def action_pause(self, group: bool) -> None:
        """Pause the queue, or the group of the job under the cursor; or let it go on."""
        job = self.table.cursor_job or {}
        if group and not job.get("group"):
            self.say("the job under the cursor is in no group; p pauses the queue", wrong=True)
        elif self.picture is not None:
            named = job["group"] if group else None
            self._ask(actions.pause_or_resume(self.picture.overview, named), self.say)

    def action_drain(self) -> None:
        """Ask which GPUs are to be drained; those of the job under the cursor are proposed."""
        job = self.table.cursor_job or {}
        self.gpu_line.set_text(",".join(job.get("gpus") or ()))
        self.gpu_line.display = True

    def _gpus_done(self, kept: bool) -> None:
        self.gpu_line.display = False
        gpus = () if self.picture is None else self.picture.gpus
        if kept and self.gpu_line.text.strip():
            self._ask(actions.drain_or_resume(gpus, self.gpu_line.text), self.say)

    def action_edit(self) -> None:
        """Change waiting jobs in the user's editor."""

        def edit(_: dict[str, Any]) -> None:
            queued = [job for job in self.table.targets if job["state"] in actions.QUEUED]
            if not queued:
                self.say("only waiting jobs can be edited", wrong=True)
                return
            with self.suspend():
                actions.edit_by_hand(queued)
            self.table.unmark_all()

        self.table.when_there(edit)

    def action_act(self, name: str) -> None:
        """Act on jobs, once that was confirmed if it is to be."""
        self._act(actions.BY_NAME[name])
