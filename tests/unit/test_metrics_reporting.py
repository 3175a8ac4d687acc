"""What a job reports is a line in its file, and never the reason why it fails."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.cli.main import main
from stoker.metrics import reporting
from stoker.metrics.reporting import MOST_LINE_BYTES, VARIABLE, report_all


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "7.1.metrics"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_report_is_a_line_with_its_step_and_time(file: Path) -> None:
    assert stoker.report(step=3, loss=0.31, acc=1)
    (line,) = lines(file)
    assert line.pop("at_ms") > 1_600_000_000_000
    assert line == {"step": 3, "metrics": {"loss": 0.31, "acc": 1}}
    assert file.stat().st_mode & 0o777 == 0o600


def test_outside_of_a_job_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert not stoker.report(step=1, loss=0.5)


class Scalar:
    def __float__(self) -> float:
        return 0.25


class Broken:
    def __float__(self) -> float:
        raise RuntimeError("CUDA error")


def test_scalars_of_other_libraries_are_numbers_and_what_is_none_is_left_out(file: Path) -> None:
    assert stoker.report(1, loss=Scalar(), text="x", none=None, broken=Broken(), bad=float("nan"))
    (line,) = lines(file)
    assert line["metrics"].pop("bad") != 0 and line["metrics"] == {"loss": 0.25}
    assert not stoker.report(step=2, broken=Broken())
    assert len(lines(file)) == 1


@pytest.mark.parametrize("path", ["/dev/full", "/nowhere/at/all", "/", "/proc/version"])
def test_a_file_that_can_not_be_written_is_no_error(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, path)
    assert not stoker.report(step=1, loss=0.5)


def test_a_pipe_without_a_reader_does_not_hold_the_job_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "pipe"))
    assert not stoker.report(loss=1)


def test_names_of_any_kind_and_many_metrics_are_lines_of_bounded_length(file: Path) -> None:
    names = [f"layer{n}/loss-of-this-layer" for n in range(500)]
    assert report_all({"step": 1, "x" * 101: 1, "": 2, "a\nb": 3, **dict.fromkeys(names, 0.5)})
    assert all(len(line) <= MOST_LINE_BYTES for line in file.read_bytes().splitlines())
    assert [name for line in lines(file) for name in line["metrics"]] == names
    assert {line["step"] for line in lines(file)} == {1}


def test_infinite_values_are_values(file: Path) -> None:
    stoker.report(loss=math.inf)
    assert lines(file)[0]["metrics"]["loss"] == math.inf


def _report_many(which: int) -> None:
    for step in range(300):
        stoker.report(step=step, which=which, padding=1.23456789)


def test_lines_of_many_processes_do_not_mix(file: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_report_many, args=(n,)) for n in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = lines(file)
    assert len(found) == 6 * 300
    for which in range(6):
        steps = [line["step"] for line in found if line["metrics"]["which"] == which]
        assert steps == list(range(300))


def test_what_is_left_out_of_reports_is_told_once(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reporting, "_is_told", False)
    for _ in range(3):
        assert stoker.report(1, 2, loss=0.5, text="x\n", shape=(3, 4))
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n"), len(lines(file))) == ("", 1, 3)
    assert said.err.startswith("stoker.report: a value without a name is left out")


def test_stderr_that_is_closed_is_no_reason_to_fail(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "_is_told", False)
    monkeypatch.setattr("sys.stderr", None)
    assert not stoker.report(loss="x")


@pytest.mark.parametrize("words", [[], ["--"], ["--nothing"], ["loss"], ["loss=x"]])
def test_a_wrong_line_of_the_command_ends_no_script_of_a_job(
    words: list[str],
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["report", *words]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n"), file.exists()) == ("", 1, False)
    monkeypatch.delenv(VARIABLE)
    assert main(["report", *words]) == (2 if words in ([], ["--"]) else 0)
