"""What the daemon does with each request: most become a wish for the next turn, some only ask."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, assert_never

from stoker import __version__
from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.model import FINAL, JobState
from stoker.core.state import State
from stoker.daemon import devices, orders, settings, show
from stoker.daemon.browsing import Browsing
from stoker.daemon.followers import Followers
from stoker.daemon.loop import Rounds
from stoker.daemon.page import Page
from stoker.daemon.selecting import selected
from stoker.daemon.server import Connection
from stoker.daemon.submission import submission
from stoker.daemon.telemetry import Telemetry
from stoker.daemon.terminals import Terminals
from stoker.daemon.watchers import Watchers
from stoker.engine import Answer, Decided, Wish
from stoker.errors import Failed, NotFound, StokerError, Unavailable, UsageError
from stoker.executors.slurm.executor import SlurmExecutor
from stoker.inventory.auto import AutoInventory
from stoker.ports import StoreFailed
from stoker.quantities import declared_gpus_text, gpu_ids, quoted
from stoker.store.sqlite import SqliteStore
from stoker.store.views import Filter, Views

log = logging.getLogger("stoker.daemon")

_FINISHED_SHOWN = 1000
_ALL_STATES = [state.value for state in JobState]


@dataclass(slots=True)
class Handlers:
    """Everything that a request may need."""

    rounds: Rounds
    store: SqliteStore
    views: Views
    inventory: AutoInventory
    telemetry: Telemetry
    slurm: SlurmExecutor
    terminals: Terminals
    followers: Followers
    browsing: Browsing
    watchers: Watchers
    page: Page
    home: str
    socket: str
    attempts: Path
    shut_down: Callable[[str], None]
    started_at_ms: int
    started_monotonic: float
    connections: set[Connection] = field(default_factory=set)
    _under_way: set[asyncio.Task[dict[str, Any]]] = field(default_factory=set)

    def handle(self, request: msg.AnyRequest, connection: Connection) -> None:
        """Answer a request, now or after its turn."""
        try:
            self._handle(request, connection)
        except StokerError as error:
            connection.fail(error)
        except StoreFailed as failure:
            connection.fail(
                Unavailable(f"the state can't be saved: {failure}", "make room, then try again")
            )
        except Exception:
            # A bug of ours must not end the connection, or the daemon.
            log.exception("a request failed: %s", type(request).__name__)
            connection.fail(Failed("something went wrong inside the daemon", "see its log"))

    def _handle(self, request: msg.AnyRequest, connection: Connection) -> None:
        views = self.views
        match request:
            case msg.Submit():
                self._submit(request, connection)
            case msg.Cancel(select=select):
                self._ask(orders.cancel(select, views), connection, "ids")
            case msg.Retry(select=select):
                self._ask(orders.retry(select, views), connection, "ids")
            case msg.Hold(select=select):
                self._ask(orders.hold(select, views), connection, "ids")
            case msg.Release(select=select):
                self._ask(orders.release(select, views), connection, "ids")
            case msg.Remove(select=select):
                self._ask(orders.remove(select, views), connection, "ids")
            case msg.Edit(select=select, changes=changes):
                wish = orders.edit(select, changes, views, self.store)
                self._ask(wish, connection, "ids")
            case msg.Pause(group=group):
                self._ask(orders.pause(group), connection)
            case msg.Resume(group=group):
                self._ask(orders.resume(group), connection)
            case msg.Groups():
                self.browsing.groups(connection)
            case msg.LimitGroup(group=group, max_running=most, known_only=known_only):
                wish = orders.limit_group(group, most, known_only=known_only)
                self._ask(wish, connection)
            case msg.GpuAdd(gpus=gpus):
                self._ask(devices.add(gpus), connection, "gpus")
            case msg.GpuRemove(gpus=gpus):
                self._ask(devices.remove(gpus), connection, "gpus")
            case msg.GpuDrain(gpus=gpus):
                self._ask(devices.drain(gpus), connection, "gpus")
            case msg.GpuResume(gpus=gpus):
                self._forgive(gpus)
                self._ask(devices.resume(gpus), connection, "gpus")
            case msg.Gpus():
                connection.answer(gpus=self._gpus(), why=self.inventory.why)
            case msg.GpuHistory(since_ms=since_ms):
                connection.answer(histories=self.telemetry.gpu_histories(since_ms))
            case msg.JobHistory(job_id=job_id, attempt=attempt):
                self._job_history(job_id, attempt, connection)
            case msg.Profiles():
                connection.answer(profiles=show.profiles(self.rounds.state))
            case msg.ProfilesForget(kinds=kinds, all=everything):
                self._ask(orders.forget_profiles(kinds, everything), connection, "kinds")
            case msg.List():
                self._list(request, connection)
            case msg.Browse():
                self.browsing.browse(request, connection)
            case msg.Watch(every_ms=every_ms):
                self.watchers.watch(every_ms, connection)
            case msg.Attempts():
                self.browsing.attempts(request, connection)
            case msg.Forecast():
                self.browsing.forecast(request, connection)
            case msg.Sweeps():
                self.browsing.sweeps(request, connection)
            case msg.SweepTable():
                self.browsing.sweep_table(request, str(self.attempts), connection)
            case msg.SweepPoints():
                self.browsing.sweep_points(request, connection)
            case msg.Show(select=select):
                ids = self._selected(select)
                connection.answer(jobs=self._shower().with_attempts(self.rounds.state, ids))
            case msg.Why(select=select):
                ids = self._selected(select)
                connection.answer(jobs=self._shower().why(self.rounds.state, ids))
            case msg.Points(points=points):
                found = views.at_points(points)
                connection.answer(points={p: {"id": i, "state": s} for p, (i, s) in found.items()})
            case msg.Wait(select=select):
                self._wait(select, connection)
            case msg.Follow(group=group):
                self.followers.follow(group, connection)
            case msg.Status():
                self._status(request, connection)
            case msg.PageStart(changes=changes):
                self._later(self.page.start(changes), connection)
            case msg.PageStop():
                self._later(self._stop_page(), connection)
            case msg.PageStatus():
                connection.answer(**self.page.status())
            case msg.Hello(latest=latest):
                connection.answer(**self._hello(latest))
            case msg.ClusterCheck():
                self._later(self._check_cluster(), connection)
            case msg.ConfigGet(name=name):
                connection.answer(settings=self._settings(name))
            case msg.ConfigSet():
                self._set(request, connection)
            case msg.Shutdown(mode=mode):
                about = {"pid": os.getpid(), "running": len(self.rounds.state.active)}
                self.shut_down(mode)
                if mode == "kill":
                    self._reply_to(orders.stop_all, connection, lambda _: about)
                else:
                    connection.answer(**about)
            case msg.Attach():
                self.terminals.attach(request, connection)
            case msg.AttachStarted():
                self.terminals.started(request)
                connection.take_more()
            case _:
                assert_never(request)

    def _submit(self, request: msg.Submit, connection: Connection) -> None:
        if request.env_of is not None:
            request.env, request.umask = self._environment_of(request.env_of)
        values = self.store.settings()
        warnings: list[str] = []
        wish = submission(
            request,
            self.views,
            settings.defaults_of(values),
            settings.cluster_rules_of(values),
            warnings.append,
        )
        more = {"warnings": warnings} if warnings else {}
        self._reply_to(wish, connection, lambda answer: {**answer, **more})

    def _ask(self, wish: Wish, connection: Connection, key: str | None = None) -> None:
        self._reply_to(wish, connection, lambda value: {} if key is None else {key: value})

    def _reply_to(
        self, wish: Wish, connection: Connection, shown: Callable[[Any], dict[str, Any]]
    ) -> None:
        def reply(answer: Answer) -> None:
            if answer.error is not None:
                connection.fail(answer.error)
            else:
                note = {"warnings": [answer.note]} if answer.note else {}
                connection.answer(**shown(answer.value), **note)

        self.rounds.ask(wish, reply)

    def _later(self, work: Coroutine[Any, Any, dict[str, Any]], connection: Connection) -> None:
        """Answer when something has been done that takes its time."""

        def done(task: asyncio.Task[dict[str, Any]]) -> None:
            self._under_way.discard(task)
            if task.cancelled():
                return
            error = task.exception()
            if error is None:
                connection.answer(**task.result())
            elif isinstance(error, StokerError):
                connection.fail(error)
            else:
                log.error("a request failed", exc_info=error)
                connection.fail(Failed("something went wrong inside the daemon", "see its log"))

        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(done)

    async def _stop_page(self) -> dict[str, Any]:
        return {"stopped": await self.page.stop()}

    def _environment_of(self, job_id: int) -> tuple[dict[str, str], int | None]:
        if not self.views.between(job_id, job_id):
            raise NotFound(f"there is no job {job_id}", "see `stoker ls --all`")
        launch = self.store.launch(job_id)
        return dict(launch.env), launch.umask

    # ------------------------------------------------------------------ questions

    def _shower(self) -> show.Shower:
        return show.Shower(
            self.views, self.attempts, self.rounds.engine.starts_nothing, self.slurm.standing
        )

    def _gpus(self) -> list[dict[str, Any]]:
        return show.gpus(self.rounds.state, self.telemetry.details())

    def _forgive(self, texts: list[str]) -> None:
        """GPUs that are resumed are said to be well, whatever their driver remembers."""
        for name in (name for text in texts for name in gpu_ids(text)):
            gpu = self.rounds.state.gpu_named(name)
            if gpu is not None and gpu.maker:
                self.inventory.forgive(gpu.id)

    def _job_history(self, job_id: int, attempt: int | None, connection: Connection) -> None:
        rows = self.views.rows([job_id])
        if not rows:
            raise NotFound(f"there is no job {job_id}", "see `stoker ls --all`")
        number = rows[0]["attempt"] if attempt is None else attempt
        connection.answer(**self.telemetry.job_history(job_id, number))

    def _selected(self, select: msg.Select) -> list[int]:
        return selected(select, self.views, self.rounds.state, _ALL_STATES)

    def _list(self, request: msg.List, connection: Connection) -> None:
        for name in request.states:
            if name not in _ALL_STATES:
                raise UsageError(
                    f"there is no state {quoted(name)}", f"use one of {', '.join(_ALL_STATES)}"
                )
        ids, total = self._listed_ids(request)
        jobs = self._shower().jobs(self.rounds.state, ids)
        connection.answer(jobs=jobs, total=total)

    def _listed_ids(self, request: msg.List) -> tuple[list[int], int]:
        """The ids to list, and how many there are without a limit."""
        select = request.select
        filters = request.states or request.user is not None or select.group or select.names
        if select.ids:
            chosen = set(self._selected(msg.Select(ids=select.ids)))
            if filters:
                chosen &= set(self._filtered(request))
        elif filters:
            chosen = set(self._filtered(request))
        elif request.all or select.all:
            chosen = set(self.views.matching(Filter()))
        else:
            return self._usual_ids(request.limit, fill_up=True)
        ids = sorted(chosen)
        return (ids[-request.limit :] if request.limit else ids), len(ids)

    def _filtered(self, request: msg.List) -> list[int]:
        select = request.select
        wanted = Filter(request.states, select.group, select.names, request.user)
        return self.views.matching(wanted)

    def _usual_ids(self, limit: int | None, *, fill_up: bool = False) -> tuple[list[int], int]:
        """What one wants to see: all that is not final, and what ended last.

        Where there is a limit, a quarter of it is for what ended last, or all that is left of it.
        """
        state = self.rounds.state
        if limit is None:
            everything = set(state.jobs) | set(self.views.last_ended(_FINISHED_SHOWN))
            return sorted(everything), len(everything)
        chosen = dict.fromkeys(list(state.active)[:limit])
        left = limit - len(state.jobs) if fill_up else 0
        ended = self.views.last_ended(max(1, limit // 4, left))
        room = max(0, limit - len(chosen) - len(ended))
        chosen.update(dict.fromkeys(self.views.first_unfinished(room + len(chosen))))
        ids = sorted([*list(chosen)[: limit - len(ended)], *ended])
        return ids, len(state.jobs) + len(ended)

    def _status(self, request: msg.Status, connection: Connection) -> None:
        state = self.rounds.state
        ids, _ = self._usual_ids(request.limit)
        connection.answer(
            gpus=self._gpus(),
            gpus_why=self.inventory.why,
            jobs=self._shower().jobs(state, ids),
            counts=show.counts(state, self.store.finished),
            paused=state.paused,
            paused_groups=[group.name for group in state.groups.values() if group.paused],
            short=show.short(state),
            cpus={"total": state.cpus, "used": state.cpus_used},
            daemon=self._hello(),
        )

    def _hello(self, latest: int | None = None) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "version": __version__,
            "api": msg.API_VERSION,
            "socket": self.socket,
            "home": self.home,
            "started_at_ms": self.started_at_ms,
            "uptime_s": round(time.monotonic() - self.started_monotonic, 3),
            "turns": self.rounds.pace(latest),
        }

    def _wait(self, select: msg.Select, connection: Connection) -> None:
        unfinished = [s.value for s in JobState if s not in FINAL]
        ids = selected(select, self.views, self.rounds.state, unfinished)

        def left() -> None:
            self.rounds.unwatch(watcher)

        def done() -> None:
            connection.answer(jobs=show.endings(self.views, ids))
            if left in connection.on_close:  # A client may wait for one thing after the other.
                connection.on_close.remove(left)

        watcher = self.rounds.watch(ids, done)
        if watcher.missing:
            connection.on_close.append(left)

    async def _check_cluster(self) -> dict[str, Any]:
        """Try the cluster in a thread of its own: a controller that is down takes its time."""
        rules = settings.cluster_rules_of(self.store.settings())
        checks = await asyncio.to_thread(self.slurm.check, rules.config, rules.shared)
        return {"checks": [one.as_data() for one in checks]}

    # ------------------------------------------------------------------ settings

    def _settings(self, name: str | None) -> list[dict[str, str]]:
        values = self.store.settings()
        gpus = [
            (g.shown_as, None if g.maker else g.memory_mib)
            for g in self.rounds.state.gpus.values()
            if not g.removing
        ]
        found = [
            {
                "name": settings.GPUS,
                "value": declared_gpus_text(gpus),
                "default": "",
                "help": "the GPUs to use: those that a driver shows, or as declared: 0:24G,1:24G",
            }
        ]
        found += [
            {
                "name": setting.name,
                "value": values.get(setting.name, setting.default),
                "default": setting.default,
                "help": setting.help,
            }
            for setting in settings.BY_NAME.values()
        ]
        if name is None:
            return found
        chosen = [item for item in found if item["name"] == name]
        if not chosen:
            raise self._no_setting(name)
        return chosen

    def _set(self, request: msg.ConfigSet, connection: Connection) -> None:
        if request.name == settings.GPUS:
            value = None if request.value == devices.AUTO else request.value
            self._ask(devices.declare(value), connection, "value")
            return
        setting = settings.BY_NAME.get(request.name)
        if setting is None:
            raise self._no_setting(request.name)
        value = None if request.value is None else setting.canonical(request.value)
        self.store.set_setting(setting.name, value)
        self.take_settings()
        answer = setting.default if value is None else value
        most = int(answer) if setting is settings.SLURM_JOBS else None

        def wish(state: State) -> Decided:
            events = [] if most is None else [ev.ClusterLimited(state.now_ms, most)]
            return Decided(events, answer)

        # The answer comes after a turn in which the new value counts.
        self._ask(wish, connection, "value")

    def take_settings(self) -> None:
        """Let what its user has set take effect."""
        values = self.store.settings()
        self.inventory.set_cpus(settings.cpus_of(values))
        self.inventory.set_foreign(settings.value_of(settings.FOREIGN, values))
        self.inventory.set_interval(settings.poll_s_of(values))
        self.rounds.engine.habits = settings.habits_of(values)
        rules = settings.cluster_rules_of(values)
        self.slurm.configure(rules.config, rules.shared)

    def _no_setting(self, name: str) -> NotFound:
        known = ", ".join([settings.GPUS, *settings.BY_NAME])
        return NotFound(f"there is no setting {quoted(name)}", f"the settings are: {known}")
