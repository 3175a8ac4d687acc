"""`stoker simulate`: figures, their pictures, and one's own jobs, without a daemon."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from stoker.core import events as ev
from stoker.core.model import Exit, Launch, Need, Terms
from stoker.errors import UsageError
from stoker.sim.figures import figures
from stoker.sim.play import Arrival, Play, gpus_like
from stoker.sim.whatif import Question, machine, what_if
from stoker.store.sqlite import SqliteStore
from unit.cli_run import stoker

HOUR_MS = 3_600_000
TRACE = "submit,run,name\n" + "".join(f"{n * 600},1h,<job {n}>\n" for n in range(6))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE, encoding="utf-8")
    return path


def test_figures_of_a_play() -> None:
    jobs = [Arrival(n * HOUR_MS // 2, Need(1), HOUR_MS) for n in range(3)]
    found = figures(Play(jobs, gpus_like(1, None, measured=False)).run(), 1)
    assert (found.wait_mean_ms, found.wait_p99_ms) == (HOUR_MS // 2, HOUR_MS)
    assert (found.makespan_ms, found.gpu_hours_used, found.gpu_hours_idle) == (3 * HOUR_MS, 3, 0)


def test_an_hour_of_a_gpu_that_two_share_counts_once() -> None:
    jobs = [Arrival(0, Need(1, mem_mib=1_000, on=("0",)), HOUR_MS) for _ in range(2)]
    found = figures(Play(jobs, gpus_like(2, 24_576, measured=False)).run(), 2)
    assert (found.gpu_hours_used, found.gpu_hours_idle, found.wait_longest_ms) == (1, 1, 0)


def test_ways_are_played_side_by_side(trace: Path) -> None:
    answer = what_if(Question(trace, gpus=("1", "2:24G"), memories=("auto", "whole")))
    waits = [(one.way.gpus, one.figures.wait_mean_ms) for one in answer.plays]
    assert [gpus for gpus, _ in waits] == ["1", "1", "2:24G", "2:24G"]
    assert waits[0][1] == waits[1][1] > waits[2][1] > 0
    assert answer.unmeasured == 6


def test_a_machine_of_several_sizes() -> None:
    assert [(gpu.id, gpu.memory_mib) for gpu in machine("2:24G+1:80G")] == [
        ("0", 24_576), ("1", 24_576), ("2", 81_920),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "x", "0", "8:24", "8:", "8:24G+", "99999", "-1"])
def test_a_machine_that_can_t_be_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        machine(text)


def test_the_picture_is_svg_with_a_box_for_each_stay(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "a.svg"
    ran = stoker(
        capsys, "simulate", "--trace", str(trace), "--gpus", "2", "--picture", str(picture)
    )
    assert ran.code == 0
    titles = [one.text or "" for one in ET.parse(picture).iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 6 and any("<job 3>" in one for one in titles)


def test_the_table_and_json_tell_the_same(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("simulate", "--trace", str(trace), "--gpus", "1", "--gpus", "3")
    text = stoker(capsys, *words).out
    ways = json.loads(stoker(capsys, *words, "--json").out)["ways"]
    assert [one["gpus"] for one in ways] == ["1", "3"]
    assert "With 3, fifo, --mem auto jobs would wait" in text
    assert "GPU HOURS" in text and "6.0" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpus", "4"), "there are no jobs yet"),
        (("--policy", "best"), "there is no policy 'best'"),
        (("--mem", "some"), "there is no way to use memory 'some'"),
        (("--trace", "a.csv", "--history", "1d"), "--trace and --history"),
        (("--gpus", "4:24"), "'4:24'"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    ran = stoker(capsys, "simulate", *words)
    assert ran.code in (2, 3) and said in ran.err and ran.err.count("\n") == 1 and not ran.out


def test_one_s_own_jobs_are_played_from_the_database(tmp_path: Path) -> None:
    database = tmp_path / "stoker.db"
    store = SqliteStore(database)
    state = store.load(1_000)
    state.apply(ev.GpuAdded(1_000, "0", 24_576, declared=True))
    for job_id, need in enumerate((Need(1), Need(0), Need(1)), 1):
        submitted = ev.JobSubmitted(1_000 * job_id, job_id, need, Terms(), launch=Launch())
        state.apply(submitted)
        state.apply(ev.AttemptPlaced(5_000, job_id, 1, ("0",) if need.gpus else ()))
        state.apply(ev.AttemptStarted(5_000, job_id, 1, 7))
        state.apply(ev.AttemptExited(65_000, job_id, 1, Exit(code=0)))
    store.commit(state, state.take_change())
    answer = what_if(Question(database=database))
    assert [(one.at_ms, one.runs_ms) for one in answer.trace.jobs] == [(0, 60_000), (2_000, 60_000)]
    assert answer.trace.left_out == {"without a GPU": 1}
    assert answer.plays[0].figures.makespan_ms == 120_000
    store.close()
