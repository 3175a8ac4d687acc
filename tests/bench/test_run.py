"""A run measures, keeps what it found, and ends with a code that says what got worse."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import run
from bench.reports import bulk_at, dispatch_at, shown_as_kept
from harness import results
from harness.comparison import EXIT_WORSE
from harness.measures import Report
from harness.page import BEGIN, END
from harness.peers import Peer, present
from harness.setting import Setting
from side_by_side import Load, measured, ratios

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in which Stoker's dispatch was committed at 1.5 times the limit."""
    monkeypatch.setattr(run, "DOCS", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "performance.md"
    page.write_text(f"# Speed\n{BEGIN}\n{END}\n", encoding="utf-8")
    directory = tmp_path / "bench" / "results"
    results.keep(dispatch_at(1.5), directory)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "results"]):
        subprocess.run([*git, *words], check=True)
    return directory


def ran(directory: Path, ratio: float, *, keep: bool = True) -> int:
    def dispatch(setting: Setting) -> list[Report]:
        return [dispatch_at(ratio)]

    proposal = run.Proposal(["dispatch"], False, None, directory, keep)
    return run.run(proposal, {"dispatch": dispatch})


def test_a_run_that_is_as_good_as_the_committed_one_ends_with_0(kept: Path) -> None:
    assert ran(kept, 1.52) == 0


def test_one_that_is_worse_names_the_row_in_its_exit_code_and_on_stderr(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(kept, 2.0) == EXIT_WORSE + run.NUMBERS["dispatch"]
    assert "dispatch: Stoker, 2,000 is worse by 33%" in capsys.readouterr().err


def test_a_second_run_is_compared_with_what_was_committed_and_not_with_the_first(
    kept: Path,
) -> None:
    assert ran(kept, 2.0) != 0
    assert ran(kept, 2.0) != 0, "the bad results of the first run have become the measure"
    now = results.kept("dispatch", kept)
    assert now is not None and now.measures[1].value == 2.0
    assert "2.00 x" in (kept.parents[1] / "docs" / "performance.md").read_text(encoding="utf-8")


def test_what_a_run_of_a_single_row_leaves_can_be_committed(kept: Path) -> None:
    def bulk(setting: Setting) -> list[Report]:
        return [bulk_at(60_000)]

    proposal = run.Proposal(["bulk"], False, None, kept, True)
    assert run.run(proposal, {"bulk": bulk}) == 0
    shown_as_kept(kept, kept.parents[1] / "docs")
    page = (kept.parents[1] / "docs" / "performance.md").read_text(encoding="utf-8")
    for row in ("dispatch", "bulk"):
        assert f"| **{row}**" in page and f"(images/bench/{row}.svg)" in page


def test_a_run_that_keeps_nothing_writes_nothing(kept: Path) -> None:
    before = (kept / "dispatch.json").read_text(encoding="utf-8")
    assert ran(kept, 1.4, keep=False) == 0
    assert (kept / "dispatch.json").read_text(encoding="utf-8") == before


def test_a_row_that_fails_does_not_cost_the_others(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(setting: Setting) -> list[Report]:
        raise RuntimeError("the disk is full")

    def works(setting: Setting) -> list[Report]:
        return [dispatch_at(1.5)]

    proposal = run.Proposal(["gap", "dispatch"], False, None, kept, False)
    assert run.run(proposal, {"gap": breaks, "dispatch": works}) == 1
    shown = capsys.readouterr()
    assert "Stoker, 2,000" in shown.out
    assert "gap could not be measured: the disk is full" in shown.err


def test_results_come_back_as_they_were_kept(tmp_path: Path) -> None:
    report = dispatch_at(1.5, left_out={"nq": "is not here"}, curves={"a": [[1.0, 2.0]]})
    results.keep(report, tmp_path)
    assert results.kept("dispatch", tmp_path) == report
    assert results.kept("gap", tmp_path) is None
    assert results.understood('{"schema": 1}') is None


def test_a_peer_that_is_not_here_is_left_out_with_a_reason() -> None:
    here = Peer("sh", "sh", lambda load: 1.0)
    gone = Peer("gone", "/nowhere/gone", lambda load: 1.0)
    found, left_out = present([here, gone])
    assert found == [here]
    assert list(left_out) == ["gone"] and "not installed" in left_out["gone"]


def test_a_slow_peer_is_run_with_fewer_jobs_and_counted_for_all(tmp_path: Path) -> None:
    loads = []

    def run_it(load: Load) -> float:
        loads.append(load.jobs)
        return 2.0

    peer = Peer("slow", "sh", run_it, most_jobs=8)
    assert peer.seconds(Load(80, 4, tmp_path)) == 20.0
    assert replace(peer, most_jobs=None).seconds(Load(80, 4, tmp_path)) == 2.0
    assert loads == [8, 80]


def test_rounds_are_interleaved_and_start_with_another_one_each(tmp_path: Path) -> None:
    order = []

    def contender(name: str, seconds: float) -> float:
        order.append(name)
        return seconds

    contenders = {"a": lambda _: contender("a", 1.0), "b": lambda _: contender("b", 3.0)}
    seconds = measured(contenders, Load(1, 1, tmp_path), 2)
    assert order == ["a", "b", "b", "a"]
    assert ratios(seconds, "b", "a") == [3.0, 3.0]


def test_rows_are_chosen_by_name_and_one_that_is_not_there_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run.understood(["--only", "gap, add"]).rows == ["gap", "add"]
    assert run.understood([]).rows == list(run.ROWS)
    assert not run.understood(["--quick"]).keep
    with pytest.raises(SystemExit) as ended:
        run.understood(["--only", "speed"])
    assert ended.value.code == 2 and "no row speed" in capsys.readouterr().err


def test_a_tiny_run_measures_the_real_thing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "run.py"), "--quick", "--only", "add", "--rounds=2"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "stoker add" in done.stdout and "≤ 2.50 x" in done.stdout
    assert not list(tmp_path.iterdir())
