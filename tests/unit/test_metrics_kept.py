"""The series that are kept: whatever is killed when, they are those of the log up to a place."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import Failed
from stoker.metrics.attempt import Reading, read_attempt
from stoker.metrics.kept import Kept, is_damage, move_away
from stoker.metrics.lookup import Lookup
from stoker.metrics.series import Series
from stoker.metrics.spec import Spec

LINES = st.sampled_from([
    b"step 3 loss=0.25\n", b"loss=nan\n", b"\rEpoch 2: 45/100 loss: 1e3", b"Epoch 4/10\n",
    b"3/10 acc: 0.5\n", b"9/10 acc: 0.5\n", b"\x1b[A\x1b[2Kloss=7 \n", b"loss=", b"-inf", b"\n",
    b"\xff\x00garbage 12\n", b"x" * 17_000, b"final 3.5\n", b'{"step": 7, "val": 0.5}\n',
])  # fmt: skip
PATTERN = r"own=final (\S+)"


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(str(tmp_path / "metrics.db"))
    yield kept
    kept.close()


@pytest.fixture
def lookup(tmp_path: Path) -> Lookup:
    return Lookup(str(tmp_path / "metrics.db"))


def written(path: Path, content: bytes | str) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def store(kept: Kept, spec: Spec) -> Reading:
    """Read to the end, and store it."""
    reading = Reading(spec)
    kept.go_on(reading)
    while reading.read(1 << 20, ended=spec.ended):
        pass
    kept.store([reading])
    return reading


def records(series: dict[str, Series]) -> dict[str, Any]:
    return {name: one.to_record() for name, one in series.items()}


def stored(path: Path) -> dict[str, Any]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, record FROM curves").fetchall()
    connection.close()
    return {name: json.loads(record) for name, record in rows}


# What happens after a piece was read: nothing, or it is stored, or the reader is killed.
EVENTS = st.sampled_from(["", "store", "kill", "store and kill"])


@given(st.lists(LINES, max_size=30), st.lists(st.tuples(st.integers(1, 60), EVENTS), max_size=20))
def test_a_reader_that_is_killed_at_any_moment_finds_what_the_whole_log_has(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], events: list[tuple[int, str]]
) -> None:
    home = tmp_path_factory.mktemp("kept")
    log, content = home / "log", b"".join(lines)
    kept = Kept(str(home / "metrics.db"))
    spec = Spec(1, 1, log=str(log), patterns=(PATTERN,))
    reading = Reading(spec)
    end = 0
    for more, event in events:
        end += more
        log.write_bytes(content[:end])
        reading.read(7, ended=False)
        if event.startswith("store"):
            kept.store([reading])
        if event.endswith("kill"):
            reading = Reading(spec)
            kept.go_on(reading)
    log.write_bytes(content)
    while reading.read(1 << 20, ended=True):
        pass
    kept.store([reading])
    kept.close()
    whole = records(read_attempt(spec))
    assert records(reading.metrics()) == whole
    assert stored(home / "metrics.db") == whole


def test_what_is_stored_of_a_log_that_grows_is_that_of_the_log_so_far(
    kept: Kept, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    spec = Spec(1, 1, log=written(log, "step 1 loss=3\nstep 2 lo"))
    store(kept, spec)
    assert stored(tmp_path / "metrics.db")["loss"]["count"] == 1
    written(log, "step 1 loss=3\nstep 2 loss=2\n")
    store(kept, spec)
    assert stored(tmp_path / "metrics.db")["loss"]["last"] == [2, 2]


def test_the_latest_of_a_bar_is_shown_while_it_may_be_replaced_and_counts_once(
    kept: Kept, lookup: Lookup, tmp_path: Path
) -> None:
    bar = " 30%|###       | {}/9 [00:01<00:02, 3.00it/s, loss={}]\r"
    spec = Spec(1, 1, log=written(tmp_path / "log", bar.format(3, 7)))
    store(kept, spec)
    assert [(row["count"], row["last"]) for row in lookup.summaries([1])] == [(1, 7)]
    [curve] = lookup.curves(1, None)
    assert (curve["first"], curve["points"]) == ([3, 7], [[3, 7]])
    written(tmp_path / "log", bar.format(3, 7) + bar.format(3, 6) + bar.format(4, 5))
    store(kept, spec)
    assert lookup.curves(1, None)[0]["points"] == [[3, 6], [4, 5]]
    assert records(store(kept, replace(spec, ended=True)).metrics()) == records(read_attempt(spec))
    assert stored(tmp_path / "metrics.db")["loss"]["held"] is None


@pytest.mark.parametrize("cut", [b"Epoch 4/10\n", b"1/10 acc: 1\n9/10 acc: 2\n"])
def test_a_reader_that_goes_on_knows_how_far_the_training_was(
    kept: Kept, tmp_path: Path, cut: bytes
) -> None:
    spec = Spec(1, 1, log=written(tmp_path / "log", cut))
    store(kept, spec)
    written(tmp_path / "log", cut + b"3/10 acc: 0.5\n")
    assert records(store(kept, spec).metrics()) == records(read_attempt(spec))


def test_a_log_that_was_emptied_is_read_from_its_start(kept: Kept, tmp_path: Path) -> None:
    log = tmp_path / "log"
    spec = Spec(1, 1, log=written(log, "step 1 loss=3 acc=1\n" * 9))
    store(kept, spec)
    written(log, "step 5 loss=4\n")
    store(kept, spec)
    assert {name: one["count"] for name, one in stored(tmp_path / "metrics.db").items()} == {
        "loss": 1
    }


def test_with_other_expressions_all_is_read_anew(kept: Kept, tmp_path: Path) -> None:
    log = written(tmp_path / "log", "final 3.5\n")
    store(kept, Spec(1, 1, log=log, patterns=(r"one=final (\S+)",)))
    store(kept, Spec(1, 1, log=log, patterns=(r"other=final (\S+)",)))
    assert set(stored(tmp_path / "metrics.db")) == {"other"}


def test_files_that_have_changed_stand_for_what_they_were(kept: Kept, tmp_path: Path) -> None:
    rows = tmp_path / "runs" / "metrics.csv"
    rows.parent.mkdir()
    spec = Spec(1, 1, folder=str(rows.parent))
    written(rows, "step,loss,acc\n1,3,4\n")
    store(kept, spec)
    written(rows, "step,loss\n1,3\n2,1\n")
    store(kept, spec)
    assert {name: one["count"] for name, one in stored(tmp_path / "metrics.db").items()} == {
        "loss": 2
    }


def test_an_expression_that_takes_for_ever_is_given_up_and_that_is_said(
    kept: Kept, lookup: Lookup, tmp_path: Path
) -> None:
    log = written(tmp_path / "log", f"step 1 loss=3\n{'x' * 60}!\nstep 2 loss=2\n")
    spec = Spec(7, 1, log=log, patterns=(r"own=(x+x+)+(\d)",), ended=True)
    assert store(kept, spec).whole
    [row] = lookup.summaries([7])
    assert (row["name"], row["count"], row["last"]) == ("loss", 2, 2)
    [words] = lookup.troubles([7], 5)
    assert words.startswith("job 7: an expression of --metric takes more than 2 s")
    assert lookup.whole([7]) == {(7, 1)}
    again = Reading(spec)
    kept.go_on(again)  # No reader tries it once more.
    assert again.trouble is not None


def test_the_summary_is_that_of_the_latest_attempt_that_has_metrics(
    kept: Kept, lookup: Lookup, tmp_path: Path
) -> None:
    for attempt, text in ((1, "step 1 loss=1 acc=5\n"), (2, "step 4 loss=2\n"), (3, "nothing\n")):
        log = written(tmp_path / f"{attempt}.log", text)
        store(kept, Spec(1, attempt, log=log, ended=attempt < 3))
    store(kept, Spec(2, 1, log=written(tmp_path / "other.log", "step 1 loss=9\n")))
    [row] = lookup.summaries([1])
    assert (row["job"], row["attempt"], row["name"], row["last"]) == (1, 2, "loss", 2)
    assert [row["job"] for row in lookup.summaries([1, 2])] == [1, 2]
    assert lookup.whole([1, 2]) == {(1, 1), (1, 2)}
    assert {one["name"] for one in lookup.curves(1, 1)} == {"loss", "acc"}
    assert lookup.curves(1, None)[0]["points"] == [[4, 2]]


def test_a_summary_has_the_last_the_lowest_and_the_highest_with_their_steps(
    kept: Kept, lookup: Lookup, tmp_path: Path
) -> None:
    text = "step 1 loss=5\nstep 2 loss=inf\nstep 3 loss=0.5\nstep 4 loss=nan\nstep 1 bad=nan\n"
    store(kept, Spec(1, 1, log=written(tmp_path / "log", text)))
    bad, loss = lookup.summaries([1])
    assert loss == {
        "job": 1, "attempt": 1, "name": "loss", "count": 4, "last": "nan", "last_step": 4,
        "min": 0.5, "min_step": 3, "max": "inf", "max_step": 2,
    }  # fmt: skip
    assert (bad["last"], bad["min"], bad["max_step"]) == ("nan", None, None)
    assert [one["name"] for one in lookup.summaries([1], ["bad", "none"])] == ["bad"]
    [_, curve] = lookup.curves(1, None)
    assert curve["not_finite"] == 2 and curve["first"] == [1, 5]


def test_a_report_counts_before_the_log_in_summaries_and_curves(
    kept: Kept, lookup: Lookup, tmp_path: Path
) -> None:
    log = written(tmp_path / "log", "step 1 loss=9 lr=1\n")
    reports = written(tmp_path / "reports", '{"step": 1, "metrics": {"loss": 0.5}}\n')
    store(kept, Spec(1, 1, log=log, reports=("/nowhere", reports)))
    assert {one["name"]: one["last"] for one in lookup.summaries([1])} == {"loss": 0.5, "lr": 1}
    assert {one["name"]: one["points"] for one in lookup.curves(1, None)} == {
        "loss": [[1, 0.5]],
        "lr": [[1, 1]],
    }


def test_a_job_that_prints_what_it_reports_counts_once_and_by_its_report(
    kept: Kept, lookup: Lookup, tmp_path: Path
) -> None:
    for job, printed, reported in ((1, 1, 9), (2, 5, 5)):
        log = written(tmp_path / f"{job}.log", f"step 1 loss={printed} acc=1\n")
        line = f'{{"step": 1, "metrics": {{"loss": {reported}}}}}\n'
        store(kept, Spec(job, 1, log=log, reports=(written(tmp_path / f"{job}.reports", line), "")))
    store(kept, Spec(3, 1, log=written(tmp_path / "3.log", "step 1 acc=1\n")))
    assert lookup.names([1, 2, 3], 9) == {"acc": 3, "loss": 2}
    assert lookup.ranked([1, 2, 3], "loss", "min") == [(2, 5), (1, 9)]
    assert lookup.ranked([1, 2, 3], "loss", "max") == [(1, 9), (2, 5)]


def test_what_is_settled_is_told_when_there_is_more_and_of_the_latest_attempt_only(
    kept: Kept, lookup: Lookup, tmp_path: Path
) -> None:
    bar = " 30%|###       | {}/9 [00:01<00:02, 3.00it/s, loss={}]\r"
    store(kept, Spec(1, 1, log=written(tmp_path / "1", "step 1 loss=7\nstep 2 loss=6\n")))
    log = written(tmp_path / "2", bar.format(1, 9) + bar.format(2, 8))
    store(kept, Spec(1, 2, log=log))
    [(job, attempt, count, points)] = lookup.settled([1, 2], "loss", {})
    assert (job, attempt, points) == (1, 2, [(1, 9)]), "the last of a bar may still be replaced"
    assert lookup.settled([1, 2], "loss", {1: (2, count)}) == []
    before = lookup.version()
    written(tmp_path / "2", "".join(bar.format(step, 10 - step) for step in (1, 2, 3)))
    store(kept, Spec(1, 2, log=log))
    assert lookup.version() != before, "it is seen without opening the file"
    [(_, _, _, points)] = lookup.settled([1, 2], "loss", {1: (2, count)})
    assert points == [(1, 9), (2, 8)]


def test_names_that_mean_something_elsewhere_are_only_names(
    kept: Kept, lookup: Lookup, tmp_path: Path
) -> None:
    names = ["__proto__", "<b>x</b>", "a'; DROP TABLE series;--", "é", "%s{0}"]
    lines = "".join(json.dumps({"step": 1, "metrics": {name: 2}}) + "\n" for name in names)
    store(kept, Spec(1, 1, reports=(written(tmp_path / "reports", lines),)))
    assert {one["name"] for one in lookup.summaries([1])} == set(names)
    assert [one["name"] for one in lookup.summaries([1], [names[2]])] == [names[2]]


def test_a_line_of_a_gigabyte_is_passed_over(kept: Kept, lookup: Lookup, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.write(b"step 1 loss=3\nx")
        file.truncate(1 << 30)  # zeros that take no room
        file.seek(0, os.SEEK_END)
        file.write(b"\nstep 2 loss=2\n")
    store(kept, Spec(1, 1, log=str(log), ended=True))
    assert [(row["name"], row["count"]) for row in lookup.summaries([1])] == [("loss", 2)]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
def test_what_is_no_file_has_no_metrics(kept: Kept, tmp_path: Path, make: Any) -> None:
    make(tmp_path / "log")
    assert store(kept, Spec(1, 1, log=str(tmp_path / "log"), ended=True)).whole


def test_a_damaged_database_is_moved_away_with_its_log(tmp_path: Path) -> None:
    path = tmp_path / "metrics.db"
    written(path, b"no database " * 1000)
    with pytest.raises(sqlite3.DatabaseError) as failed:
        Kept(str(path))
    assert is_damage(failed.value)
    assert not is_damage(sqlite3.OperationalError("database or disk is full"))
    assert Lookup(str(path)).whole([1]) == set()
    written(tmp_path / "metrics.db-wal", b"of that")
    move_away(str(path))
    assert sorted(os.listdir(tmp_path)) == ["metrics.db.damaged", "metrics.db.damaged-wal"]


def test_a_database_of_a_newer_version_is_left_alone(kept: Kept, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "metrics.db") as connection:
        connection.execute("PRAGMA user_version = 3")
    connection.close()
    with pytest.raises(Failed, match="another Stoker"):
        Kept(str(tmp_path / "metrics.db"))


def test_nothing_is_found_before_there_is_anything(lookup: Lookup) -> None:
    assert (lookup.summaries([1]), lookup.curves(1, None), lookup.whole([1])) == ([], [], set())


def test_what_was_kept_of_removed_jobs_is_deleted(
    kept: Kept, lookup: Lookup, tmp_path: Path
) -> None:
    log = written(tmp_path / "log", "step 1 loss=3\n")
    for job in (1, 2, 3):
        store(kept, Spec(job, 1, log=log, ended=True))
    with sqlite3.connect(tmp_path / "stoker.db") as jobs:
        jobs.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY)")
        jobs.execute("INSERT INTO jobs VALUES (2)")
    jobs.close()
    kept.forget_removed(str(tmp_path / "stoker.db"))
    assert [row["job"] for row in lookup.summaries([1, 2, 3])] == [2]
    assert lookup.whole([1, 2, 3]) == {(2, 1)}


def test_a_million_steps_are_kept_in_little_room(kept: Kept, tmp_path: Path) -> None:
    def steps(first: int, last: int) -> Iterator[bytes]:
        for step in range(first, last):
            yield b"step %d loss=%.4f\n" % (step, math.sin(step / 1e5))

    log = tmp_path / "log"
    for first in range(0, 200_000, 50_000):
        with log.open("ab") as file:
            file.writelines(steps(first, first + 50_000))
        store(kept, Spec(1, 1, log=str(log)))
    size = os.path.getsize(tmp_path / "metrics.db") + os.path.getsize(tmp_path / "metrics.db-wal")
    assert size < 2 << 20
    assert stored(tmp_path / "metrics.db") == records(read_attempt(Spec(1, 1, log=str(log))))


def lines_at_once(reading: Reading, path: Path, pieces: Sequence[bytes]) -> None:
    for piece in pieces:
        with path.open("ab") as file:
            file.write(piece)
        reading.read(1 << 20, ended=False)


def test_the_users_own_metrics_have_their_place_however_many_names_come_first(
    kept: Kept, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    spec = Spec(1, 1, log=str(log), patterns=(PATTERN,))
    reading = Reading(spec)
    names = b"".join(b"step 1 name_%s=1\n" % b"".join(bytes([97 + int(c)]) for c in str(n))
                     for n in range(1500))  # fmt: skip
    lines_at_once(reading, log, [names])
    kept.store([reading])
    again = Reading(spec)
    kept.go_on(again)
    lines_at_once(again, log, [names, b"final 7\n"])
    assert records(again.metrics()) == records(read_attempt(spec))
    assert again.metrics()["own"].count == 1
