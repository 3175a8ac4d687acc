"""Results outlive the program that asked for them: kept, fetched by another, deleted when old."""

from __future__ import annotations

import os
import pickle
import sqlite3
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

import stoker
from library_home import fifo, library, output_of, run_script, tell, until_told
from stoker import JobFailed, JobFuture
from stoker.call_files import Asked
from stoker.errors import NotFound, UsageError
from stoker.library.channel import channel
from stoker_home import StokerHome
from waiting import PATIENCE_S, eventually

__all__ = ["library"]

_QUEUES = """
import os, sys
import stoker

def gives(value):
    return [value, value]

def fails():
    raise KeyError("gone wrong")

def waits(go):
    return open(go).read() or "told"

night = stoker.Executor(gpus_per_job=0, group="night")
calls = night.submit(gives, 7), night.submit(fails), night.submit(waits, sys.argv[1])
print(*(call.job_id for call in calls), flush=True)
os._exit(0)
"""


def test_another_program_has_the_results_of_one_that_has_gone(library: StokerHome) -> None:
    go = fifo(library.work)
    gives, fails, waits = map(int, output_of(run_script(library, _QUEUES, go)).split())
    library.until_final(gives, fails)
    assert stoker.future(gives).result(PATIENCE_S) == [7, 7]
    with pytest.raises(KeyError, match="gone wrong") as caught:
        stoker.future(fails).result(PATIENCE_S)
    assert "in fails" in str(caught.value.__cause__)
    late = stoker.future(str(waits))
    assert not late.done() and stoker.future(waits) is late
    path = library.job(waits)["argv"][3]
    asked = Asked(os.path.dirname(path))
    assert not asked.take_alone(path), "it is asked for"
    tell(go)
    assert late.result(PATIENCE_S) == "told"
    eventually(lambda: asked.take_alone(path), "it was read")
    asked.close()
    library.until_final(waits)
    command = library.submit("true", group="night")
    found = stoker.futures(group="night")
    assert [one.job_id for one in found] == [gives, fails, waits], "the command has no future"
    assert [one.exception(PATIENCE_S) is None for one in found] == [True, False, True]
    assert [one.job_id for one in stoker.futures(gives, [fails])] == [gives, fails]
    # It is the last day's question, too.
    again = f"import stoker; print(stoker.future({gives}).result(), len(stoker.futures({waits})))"
    assert output_of(run_script(library, again)) == "[7, 7] 1\n"
    with pytest.raises(UsageError, match=f"job {command} is a command"):
        stoker.future(command)
    with pytest.raises(NotFound):
        stoker.future(10**7)
    with pytest.raises(UsageError, match="nothing was named"):
        stoker.futures()


def test_a_future_goes_to_other_processes_as_its_id_and_home(library: StokerHome) -> None:
    go = fifo(library.work)
    first = stoker.submit(until_told, go)
    copy: JobFuture[str] = pickle.loads(pickle.dumps(first))
    assert copy is first, "in this process it is known"
    (library.work / "future.pickle").write_bytes(pickle.dumps(first))
    script = """
import pickle
with open("future.pickle", "rb") as file:
    future = pickle.load(file)
print(future.job_id, future.result(60))
"""
    # The other process is of another Stoker; the future knows which one it is from.
    elsewhere = {"STOKER_HOME": str(library.work / "elsewhere")}
    second = stoker.submit(lambda one: one.result(60), first, gpus=0)
    eventually(second.running, "a call waits for the future that it was given")
    tell(go)
    assert output_of(run_script(library, script, env=elsewhere)) == f"{first.job_id} told\n"
    assert second.result(PATIENCE_S) == "told"
    point = [{"a": 1}]
    stoker.run_grid(_square, point)[0].result(PATIENCE_S)
    [done] = stoker.run_grid(_square, point)
    assert done.job_id is None
    assert pickle.loads(pickle.dumps(done)).result(0) == 1


def _square(a: int) -> int:
    return a * a


def test_what_has_no_result_any_more_is_told(library: StokerHome) -> None:
    future = stoker.submit(_square, 3)
    held = stoker.submit(_square, 3, hold=True)
    assert future.result(PATIENCE_S) == 9
    library.stoker("cancel", str(held.job_id))
    with pytest.raises(CancelledError):
        stoker.future(held.job_id).result(PATIENCE_S)
    job = library.until_final(future.job_id or 0)[0]
    for path in Path(job["argv"][3]).parent.glob(f"{Path(job['argv'][3]).name}*"):
        path.unlink()
    with pytest.raises(JobFailed, match="succeeded: its result was deleted"):
        stoker.future(future.job_id).result(PATIENCE_S)


def files(*jobs: int) -> list[list[str]]:
    """What is left of some calls of this process, by their jobs."""
    directory = Path(channel().calls.directory)
    owners = dict(line.split()[::-1] for line in (directory / "jobs").read_text().splitlines())
    return [sorted(path.name for path in directory.glob(f"{owners[str(job)]}*")) for job in jobs]


def ended_days_ago(home: StokerHome, days: int, *jobs: int) -> None:
    with sqlite3.connect(home.home.database, timeout=PATIENCE_S) as database:
        ago_ms = days * 86_400_000
        for job in jobs:
            database.execute(
                "UPDATE jobs SET ended_at_ms = ended_at_ms - ? WHERE id = ?", (ago_ms, job)
            )


def test_old_results_are_deleted_but_for_those_that_are_awaited(
    stoker: StokerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stoker import submit

    monkeypatch.setenv("STOKER_HOME", stoker.home.root)
    futures = [submit(_square, n, gpus=0) for n in range(4)]
    assert [future.result(PATIENCE_S) for future in futures] == [0, 1, 4, 9]
    old, awaited, retried, new = (future.job_id or 0 for future in futures)
    stoker.until_final(old, awaited, retried, new)
    path = stoker.job(awaited)["argv"][3]
    other = Asked(os.path.dirname(path))  # As another program has it.
    other.ask(path)
    stoker.stoker("config", "set", "keep-results", "30d")
    ended_days_ago(stoker, 8, old, awaited, retried)
    stoker.stoker("retry", str(retried))
    assert stoker.until_final(retried)[0]["attempt"] == 2
    assert [len(left) for left in files(old, awaited, retried, new)] == [2, 2, 3, 2]
    stoker.stoker("config", "set", "keep-results", "7d")
    eventually(lambda: files(old) == [[]], "the old one is deleted")
    assert [len(left) for left in files(awaited, retried, new)] == [2, 3, 2]
    other.done(path)
    stoker.stoker("config", "set", "keep-results", "6d")
    eventually(lambda: files(awaited) == [[]], "it was read")
    assert [len(left) for left in files(retried, new)] == [3, 2]
    assert stoker.job(old)["state"] == "succeeded"
    refused = stoker.cli("retry", str(old))
    assert refused.code == 1 and "its code was deleted" in refused.err
    other.close()


def test_the_oldest_results_are_deleted_when_they_take_too_much_room(
    stoker: StokerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stoker import submit

    monkeypatch.setenv("STOKER_HOME", stoker.home.root)
    waiting = submit(_square, 5, hold=True)
    ids = []
    for _ in range(4):
        future = submit(bytes, 1_000_000, gpus=0)
        assert len(future.result(PATIENCE_S)) == 1_000_000
        ids.append(future.job_id or 0)
    stoker.until_final(*ids)
    stoker.stoker("config", "set", "keep-results", "7d,2M")
    eventually(lambda: files(*ids[:2]) == [[], []], "the oldest are deleted")
    assert [len(left) for left in files(*ids[2:])] == [2, 2]
    stoker.stoker("config", "set", "keep-results", "1M")
    eventually(lambda: files(ids[2]) == [[]], "the next is deleted")
    assert len(files(ids[3])[0]) == 2
    stoker.stoker("release", str(waiting.job_id))
    assert waiting.result(PATIENCE_S) == 25
    for wrong in ("7x", "7d,8d", "10"):
        refused = stoker.cli("config", "set", "keep-results", wrong)
        assert refused.code == 2 and refused.err.count("\n") == 1, wrong


def test_a_job_can_not_have_files_deleted_that_are_no_calls(
    library: StokerHome, tmp_path: Path
) -> None:
    mine = tmp_path / "1.call"
    mine.touch()
    job = library.submit("true", "x", "--call", str(mine))
    library.until_final(job)
    library.stoker("rm", str(job))
    other = library.submit("true")
    library.until_final(other)
    library.stoker("rm", str(other))
    assert mine.exists()
