"""Databases of other versions, other programs, and no database at all."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from stoker.core import events as ev
from stoker.core.check import check
from stoker.core.model import Cause, Exit, JobState, Need, Terms
from stoker.errors import Failed
from stoker.store import database
from stoker.store.database import APPLICATION_ID, point_hash
from stoker.store.named_sql import schema_steps
from stoker.store.sqlite import SqliteStore
from stoker.store.views import Views
from stoker_home import StokerHome

NEWEST = len(schema_steps())
ENV = {"WANDB_MODE": "offline", "NAME": "Zoë"}


def database_of_schema_1(path: Path) -> None:
    """As the first version wrote it: one job that ended, one that ran, one that waits."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    old = sqlite3.connect(path, isolation_level=None)
    old.execute("PRAGMA journal_mode = WAL")
    old.executescript(schema_steps()[0])
    old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    old.execute("PRAGMA user_version = 1")
    need: dict[str, object] = {
        "gpus": 1,
        "share_milli": None,
        "mem_mib": None,
        "exclusive": False,
        "on": [],
        "prefer": [],
        "cpus": 0,
        "max_per_gpu": None,
    }
    terms = {
        "time_limit_ms": None,
        "grace_ms": 30000,
        "signal": None,
        "signal_before_ms": 0,
        "retries": 0,
        "attached": False,
    }
    body = json.dumps(ENV).encode()
    old.execute("INSERT INTO needs VALUES (1, ?)", (json.dumps(need),))
    old.execute("INSERT INTO terms VALUES (1, ?)", (json.dumps(terms),))
    digest = hashlib.sha256(body).digest()
    old.execute("INSERT INTO environments VALUES (1, ?, ?)", (digest, zlib.compress(body)))
    launch: dict[str, object] = {
        "argv": ["echo", "naïve"],
        "shell": None,
        "cwd": "/",
        "extra_env": {},
        "out": None,
        "err": None,
        "gpu_arg": False,
    }
    for job_id, state, ended, attempt in (
        (3, "failed", 1_700_000_002_000, 1),
        (4, "running", None, 1),
        (7, "waiting", None, 0),
    ):
        old.execute(
            """INSERT INTO jobs (id, state, priority, need, terms, name, user, submitted_at_ms,
                                 attempt, launch, environment, ended_at_ms, cause, exit_code)
               VALUES (?, ?, 5, 1, 1, 'old', 'ada', 1700000000000, ?, ?, 1, ?, ?, ?)""",
            (job_id, state, attempt, json.dumps(launch), ended)
            + (("exit", 9) if ended else (None, None)),
        )
    old.execute(
        """INSERT INTO attempts (job_id, number, gpus, placed_at_ms, started_at_ms, pid,
                                 ended_at_ms, state, cause, exit_code)
           VALUES (3, 1, '["0"]', 1700000001000, 1700000001000, 4000000,
                   1700000002000, 'failed', 'exit', 9),
                  (4, 1, '["1"]', 1700000001000, 1700000001000, 4000001,
                   NULL, NULL, NULL, NULL)"""
    )
    old.execute("INSERT INTO gpus VALUES ('0', 24576, 1, 0, 0), ('1', NULL, 1, 1, 0)")
    old.execute("INSERT INTO settings VALUES ('paused', '1'), ('next_job_id', '12')")
    old.execute("INSERT INTO groups VALUES ('sweep', 1, 3)")
    old.close()
    os.chmod(path, 0o600)


def test_a_database_of_an_older_schema_is_upgraded_with_its_rows_intact(tmp_path: Path) -> None:
    path = tmp_path / "stoker.db"
    database_of_schema_1(path)
    store = SqliteStore(path)
    state = store.load(1_700_000_010_000)
    check(state)
    assert store.connection.execute("PRAGMA user_version").fetchone() == (NEWEST,)
    assert {i: job.state for i, job in state.jobs.items()} == {
        4: JobState.RUNNING,
        7: JobState.WAITING,
    }
    assert state.jobs[4].active is not None and state.jobs[4].active.gpus == ("1",)
    assert state.next_job_id == 12
    assert state.paused
    assert state.groups["sweep"].paused and state.groups["sweep"].max_running == 3
    assert state.gpus["0"].memory_mib == 24576 and state.gpus["1"].drained
    assert store.launch(7).argv == ("echo", "naïve")
    assert dict(store.launch(7).env) == ENV
    assert store.launch(7).umask is None, "as then: that of the daemon"
    row = Views(store.connection).rows([3])[0]
    assert (row["state"], row["exit_code"], row["name"]) == ("failed", 9, "old")
    assert store.finished == {"failed": 1}
    store.close()


def test_points_of_an_older_schema_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "stoker.db"
    database_of_schema_1(path)
    points = {3: "sweep:0123456789abcdef", 4: "", 7: "Größe \\ \"'/:\u2028"}
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        for number, step in enumerate(schema_steps()[1:10], start=2):
            old.executescript(f"BEGIN; {step} PRAGMA user_version = {number}; COMMIT;")
        for job_id, point in points.items():
            old.execute("UPDATE jobs SET point = ? WHERE id = ?", (point, job_id))
    store = SqliteStore(path)
    found = Views(store.connection).at_points([*points.values(), "another"])
    assert {point: job_id for point, (job_id, _) in found.items()} == {
        point: job_id for job_id, point in points.items()
    }
    store.close()


def test_needs_and_gpus_that_were_kept_in_older_words_are_read(tmp_path: Path) -> None:
    path = tmp_path / "stoker.db"
    database_of_schema_1(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.create_function("point_hash", 1, point_hash, deterministic=True)
        for number, step in enumerate(schema_steps()[1:13], start=2):
            old.executescript(f"BEGIN; {step} PRAGMA user_version = {number}; COMMIT;")
        body = json.dumps({"gpus": 1, "growth_mib": 0, "mem_mib": 77, "spare_mib": 0})
        need = "(SELECT need FROM jobs WHERE id = 7)"
        old.execute(f"UPDATE needs SET body = ? WHERE id = {need}", (body,))
        old.execute("UPDATE gpus SET maker = 'nvidia' WHERE id = '0'")
    store = SqliteStore(path)
    state = store.load(1_700_000_010_000)
    assert state.jobs[7].need == Need(mem_mib=77)
    assert state.gpus["0"].vendor == "nvidia"
    store.close()


@pytest.mark.parametrize("form", ["as it is written now", "as it was written first"])
def test_an_upgraded_database_takes_jobs_in_states_that_are_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    path = tmp_path / "stoker.db"
    if form == "as it was written first":
        now = schema_steps()
        start, end = now[0].index("    CHECK (CASE"), now[0].index("END),") + len("END),")
        added = (JobState.SUBMITTED, JobState.STOPPED)
        states = ", ".join(f"'{state}'" for state in JobState if state not in added)
        first = f"    CHECK (state IN ({states})),"
        old = [now[0][:start] + first + now[0][end:], *now[1:]]
        with monkeypatch.context() as patch:
            patch.setattr("upgrade.test_database_versions.schema_steps", lambda: old)
            database_of_schema_1(path)
    else:
        database_of_schema_1(path)
    store = SqliteStore(path)
    state = store.load(1_700_000_010_000)
    state.apply(ev.JobSubmitted(state.now_ms, 12, Need(), Terms(executor="slurm")))
    state.apply(ev.AttemptPlaced(state.now_ms, 12, 1, ()))
    state.apply(ev.AttemptAccepted(state.now_ms, 12, 1, "77_3"))
    state.apply(ev.JobSubmitted(state.now_ms, 13, Need(), Terms()))
    state.apply(ev.AttemptPlaced(state.now_ms, 13, 1, ()))
    store.commit(state, state.take_change())
    early = Cause.STOPPED_EARLY
    state.apply(ev.StopRequested(state.now_ms, 13, 1, early, "at step 9: loss 0.81 (asha)"))
    store.commit(state, state.take_change())
    assert store.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    store.close()
    store = SqliteStore(path)
    job = store.load(1_700_000_010_000).jobs[12]
    assert job.state is JobState.SUBMITTED and job.active is not None
    assert job.active.place == "77_3"
    state = store.load(1_700_000_010_000)
    state.apply(ev.AttemptExited(state.now_ms, 13, 1, Exit(signal=15)))
    store.commit(state, state.take_change())
    query = "SELECT state, cause, detail FROM jobs WHERE id = 13"
    said = ("stopped", "stopped early", "at step 9: loss 0.81 (asha)")
    assert store.connection.execute(query).fetchone() == said
    with pytest.raises(sqlite3.IntegrityError):
        store.connection.execute("UPDATE jobs SET state = 'elsewhere' WHERE id = 12")
    store.close()


@pytest.mark.parametrize("column", ["need", "terms", "environment"])
def test_a_job_of_an_upgraded_database_still_can_not_refer_to_what_is_not_there(
    tmp_path: Path, column: str
) -> None:
    path = tmp_path / "stoker.db"
    database_of_schema_1(path)
    store = SqliteStore(path)
    assert store.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    store.connection.execute("BEGIN")
    store.connection.execute(f"UPDATE jobs SET {column} = 99 WHERE id = 7")
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        store.connection.execute("COMMIT")
    store.connection.execute("ROLLBACK")
    store.close()


def test_the_old_database_is_kept_beside_the_upgraded_one(tmp_path: Path) -> None:
    path = tmp_path / "stoker.db"
    database_of_schema_1(path)
    SqliteStore(path).close()
    kept = tmp_path / "stoker.db.schema1"
    assert kept.stat().st_mode & 0o777 == 0o600
    copy = sqlite3.connect(kept)
    assert copy.execute("PRAGMA user_version").fetchone() == (1,)
    assert copy.execute("SELECT count(*) FROM jobs").fetchone() == (3,)
    copy.close()


def test_a_daemon_on_an_old_database_serves_its_jobs(home: StokerHome) -> None:
    database_of_schema_1(Path(home.home.database))
    os.chmod(home.home.root, 0o700)
    home.start()
    jobs = home.jobs()
    assert jobs[3]["exit_code"] == 9
    assert jobs[4]["state"] == "lost"
    assert jobs[7]["state"] == "waiting"
    home.call("resume")
    home.call("gpu_resume", gpus=["1"])
    assert home.until_final(7)[0]["state"] == "succeeded"
    assert home.log_of(7) == "naïve\n"
    assert home.submit("true") == 12


@pytest.mark.parametrize("steps_done", range(1, NEWEST))
def test_a_crash_between_two_upgrade_steps_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps_done: int
) -> None:
    path = tmp_path / "stoker.db"
    database_of_schema_1(path)

    class Crash(BaseException):
        pass

    class Connection(sqlite3.Connection):
        scripts = 0

        def executescript(self, script: str, /) -> sqlite3.Cursor:
            if "BEGIN IMMEDIATE" in script:
                Connection.scripts += 1
                if Connection.scripts == steps_done:
                    raise Crash
            return super().executescript(script)

    def connect(*args: object, **options: object) -> sqlite3.Connection:
        return real_connect(*args, **options, factory=Connection)  # type: ignore[call-overload,no-any-return]

    real_connect = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect)
        with pytest.raises(Crash):
            SqliteStore(path)
    store = SqliteStore(path)
    assert store.connection.execute("PRAGMA user_version").fetchone() == (NEWEST,)
    assert sorted(store.load(1_700_000_010_000).jobs) == [4, 7]
    store.close()


def test_a_step_that_is_cut_short_leaves_the_old_schema_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stoker.db"
    database_of_schema_1(path)
    broken = [*schema_steps()[:1], schema_steps()[1] + "\nCREATE TABLE;", *schema_steps()[2:]]
    with monkeypatch.context() as patch:
        patch.setattr(database, "schema_steps", lambda: broken)
        with pytest.raises(Failed):
            SqliteStore(path)
    check_connection = sqlite3.connect(path)
    assert check_connection.execute("PRAGMA user_version").fetchone() == (1,)
    columns = [row[1] for row in check_connection.execute("PRAGMA table_info(jobs)")]
    assert "kind" not in columns
    check_connection.close()
    store = SqliteStore(path)
    assert sorted(store.load(1_700_000_010_000).jobs) == [4, 7]
    store.close()


def test_a_database_from_a_newer_version_is_refused_and_left_untouched(home: StokerHome) -> None:
    path = Path(home.home.database)
    database_of_schema_1(path)
    os.chmod(home.home.root, 0o700)
    newer = sqlite3.connect(path)
    newer.execute(f"PRAGMA user_version = {NEWEST + 5}")
    newer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    newer.close()
    before, when = path.read_bytes(), path.stat().st_mtime_ns
    ran = home.cli("ls")
    assert ran.code == 1 and ran.out == ""
    assert ran.err.count("\n") == 1
    assert f"newer Stoker (schema {NEWEST + 5}, this one knows {NEWEST})" in ran.err
    assert "upgrade" in ran.err
    assert path.read_bytes() == before and path.stat().st_mtime_ns == when
    assert not Path(f"{path}-wal").exists()


def test_a_newer_version_is_recognised_though_it_is_only_in_the_write_ahead_log(
    tmp_path: Path,
) -> None:
    path = tmp_path / "stoker.db"
    SqliteStore(path).close()
    other = sqlite3.connect(path)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute(f"PRAGMA user_version = {NEWEST + 1}")
    # It is still open, so nothing has been moved from the log into the file.
    before = path.read_bytes()
    with pytest.raises(Failed, match="newer Stoker"):
        SqliteStore(path)
    assert path.read_bytes() == before
    other.close()


@pytest.mark.parametrize(
    "content",
    [b"just some notes of mine\n", b"x", b"SQLite format 3\0", os.urandom(5000)],
    ids=["text", "one byte", "a header cut short", "noise"],
)
def test_what_is_not_a_database_is_refused_and_left_untouched(
    home: StokerHome, content: bytes
) -> None:
    os.makedirs(home.home.root, 0o700)
    path = Path(home.home.database)
    path.write_bytes(content)
    ran = home.cli("add", "--gpus", "0", "--", "true")
    assert ran.code == 1 and ran.out == ""
    assert ran.err.count("\n") == 1 and "not a Stoker database" in ran.err
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_refused_and_left_untouched(tmp_path: Path) -> None:
    path = tmp_path / "stoker.db"
    other = sqlite3.connect(path)
    other.execute("PRAGMA application_id = 252006673")
    other.execute("CREATE TABLE songs (title TEXT)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(Failed, match="another program"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_database_with_foreign_tables_and_no_mark_is_refused_and_left_untouched(
    tmp_path: Path,
) -> None:
    path = tmp_path / "stoker.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE songs (title TEXT)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(Failed, match="another program"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "stoker.db"
    path.touch(mode=0o600)
    store = SqliteStore(path)
    assert store.load(0).jobs == {}
    store.close()
