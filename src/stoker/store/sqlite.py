"""The store on disk: SQLite with a write-ahead log, each commit durable before it returns.

Decisions are made in memory; this is their record. One writer, the daemon. A commit is one
transaction, however much has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stoker.core.change import Change
from stoker.core.model import Launch
from stoker.core.state import State
from stoker.store.database import open_database, transaction
from stoker.store.launches import Launches
from stoker.store.loading import load
from stoker.store.named_sql import queries
from stoker.store.numbered import Numbered
from stoker.store.outbox import Outbox
from stoker.store.reserve import PART_BYTES, Reserve, lengthen, room_is_short
from stoker.store.writing import Writer


class SearchRow(NamedTuple):
    """A search as it is kept; see the table."""

    name: str
    spec: str
    state: str
    progress: str


class SqliteStore:
    """See ports.Store; the questions of front ends are in `views`, and telemetry in `histories`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.reserve = Reserve(path.with_name("reserve"))
        if room_is_short(path.parent):
            self.reserve.give_up_part()  # To open the database takes some, too.
        self.connection = open_database(path)
        self._sql = queries()
        self._numbered = Numbered(self.connection)
        self._launches = Launches(self.connection)
        self.outbox = Outbox(self.connection)
        self._writer = Writer(self._numbered, self._launches, self.outbox)
        self._settings: dict[str, str] | None = None  # until they change
        self.finished: dict[str, int] = {}  # how many final jobs, by state

    def close(self) -> None:
        """Let the file go."""
        self.connection.close()

    def load(self, now_ms: int) -> State:
        """See ports.Store."""
        self.finished = self._count_finished()
        ended = sum(self.finished.values())
        return load(self.connection, self._path, self._numbered, ended, now_ms)

    def commit(
        self, state: State, change: Change, meanwhile: Callable[[], object] | None = None
    ) -> None:
        """See ports.Store."""
        with transaction(self.connection) as cursor:
            self._writer.write(cursor, state, change)
            if meanwhile is not None:
                meanwhile()
        self._launches.committed(change)
        if change.settings or change.standbys or change.policy or change.removed:
            self._settings = None
        if change.removed or change.retried:
            # These were final before, in states that only the file knows.
            self.finished = self._count_finished()
            return
        for ended in change.ended:
            if ended.job_is_final:
                name = ended.outcome.state._value_
                self.finished[name] = self.finished.get(name, 0) + 1

    def _count_finished(self) -> dict[str, int]:
        return dict(self.connection.execute(self._sql["count_ended"]).fetchall())

    def make_room(self) -> bool:
        """See ports.Store.

        A commit is written to the write-ahead log, whose place is taken before another can
        have it. What SQLite finds there is no commit of its own, and overwritten. The other half
        is for the database, to which the log is copied, and for ledgers and exit codes.
        """
        if not self.reserve.give_up_part():
            return False
        lengthen(self._path.with_name(f"{self._path.name}-wal"), PART_BYTES // 2)
        return True

    def launch(self, job_id: int) -> Launch:
        """See ports.Store."""
        return self._launches.of(job_id)

    def settings(self) -> dict[str, str]:
        """What its user has set, and a few notes of the daemon's own."""
        if self._settings is None:
            self._settings = dict(self.connection.execute(self._sql["settings"]).fetchall())
        return dict(self._settings)

    def set_setting(self, name: str, value: str | None) -> None:
        """Keep a setting, or (None) forget it."""
        with transaction(self.connection) as cursor:
            query = "unset_setting" if value is None else "set_setting"
            cursor.execute(self._sql[query], {"name": name, "value": value})
        self._settings = None

    def searches(self, name: str | None = None) -> list[SearchRow]:
        """All searches, or the one of that name."""
        rows = self.connection.execute(self._sql["searches"], {"name": name}).fetchall()
        return [SearchRow(*row) for row in rows]

    def searches_again(self) -> list[str]:
        """Those that are over, and of which a point is to run again, or does."""
        rows = self.connection.execute(self._sql["searches_again"]).fetchall()
        return [name for (name,) in rows]

    def keep_search(self, row: SearchRow) -> None:
        """Keep a search, new or changed."""
        with transaction(self.connection) as cursor:
            cursor.execute(self._sql["keep_search"], row._asdict())

    def last_code(self) -> int:
        """The highest number of a `Code` that is kept."""
        return int(self.connection.execute(self._sql["last_code"]).fetchone()[0])

    def set_dirty(self, found: Mapping[int, bool]) -> None:
        """Keep whether there were changes, by the numbers of each `Code`."""
        with transaction(self.connection) as cursor:
            rows = [{"number": number, "dirty": dirty} for number, dirty in found.items()]
            cursor.executemany(self._sql["set_dirty"], rows)

    def removals(self, most: int) -> list[tuple[int, int, str | None, str | None]]:
        """Removed jobs whose files are still there: their attempts, points, and files of calls."""
        return self.connection.execute(self._sql["removals"], {"most": most}).fetchall()

    def removals_done(self, job_ids: Sequence[int]) -> None:
        """Their directories are gone."""
        with transaction(self.connection) as cursor:
            cursor.executemany(self._sql["removal_done"], [{"job_id": i} for i in job_ids])

    def drop_old_submissions(self, before_ms: int) -> None:
        """Forget tokens that will not be repeated any more."""
        with transaction(self.connection) as cursor:
            cursor.execute(self._sql["drop_old_submissions"], {"before_ms": before_ms})
