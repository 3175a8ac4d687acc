"""A store on disk keeps nothing of attempts that were put back."""

from __future__ import annotations

from pathlib import Path

from stoker.core import events as ev
from stoker.core.model import Launch, Need, Terms
from stoker.store.sqlite import SqliteStore
from stoker.store.views import Views

NOW_MS = 1_000


def test_an_attempt_that_was_put_back_leaves_no_row_and_its_number_is_given_again(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "state.db")
    state = store.load(NOW_MS)

    def happens(*events: ev.Event) -> None:
        for event in events:
            state.apply(event)
        store.commit(state, state.take_change())

    def rows() -> list[tuple[int, str]]:
        found = store.connection.execute("SELECT number, gpus FROM attempts").fetchall()
        return [(row[0], row[1]) for row in found]

    launch = Launch(("true",))
    happens(
        ev.GpuAdded(NOW_MS, "0"),
        ev.GpuAdded(NOW_MS, "1"),
        ev.JobSubmitted(NOW_MS, 1, Need(), Terms(), launch=launch),
    )
    for number in range(100):
        happens(ev.AttemptPlaced(NOW_MS, 1, 1, (str(number % 2),)))
        assert rows() == [(1, f'["{number % 2}"]')]
        happens(ev.AttemptPutBack(NOW_MS, 1, 1, "no more processes"))
        assert rows() == []
        assert Views(store.connection).rows([1])[0]["attempt"] == 0
    store.close()
