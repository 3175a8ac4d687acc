"""Metrics in files: CSV, JSON lines and event files, whole, half written or hostile."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

import pytest

from stoker.errors import Failed
from stoker.metrics.attempt import read_attempt
from stoker.metrics.reading import Metrics
from stoker.metrics.sources import Folder, Tail
from stoker.metrics.spec import Spec

SAID = Path(__file__).parent / "training_said"
VAL_LOSS = [(7, 0.2114831507205963), (15, 0.010157261043787003), (23, 0.0005885526188649237)]


def curves(metrics: Metrics) -> dict[str, list[tuple[float, float]]]:
    return {name: series.curve() for name, series in metrics.by_name.items()}


def of_files(path: str) -> Metrics:
    folder = Folder(path)
    assert not folder.read(1, ended=True)
    return folder.metrics


def test_the_csv_of_lightning() -> None:
    found = curves(of_files(str(SAID / "lightning_metrics.csv")))
    assert set(found) == {"train_loss", "val_loss"}
    assert found["val_loss"] == VAL_LOSS
    assert [step for step, _ in found["train_loss"]] == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23]


def test_event_files_of_tensorboard(tmp_path: Path) -> None:
    events = (SAID / "events.out.tfevents.1794989696.host.1.0").read_bytes()
    run = tmp_path / "runs" / "version_0"
    run.mkdir(parents=True)
    (run / "events.out.tfevents.1.host.1.0").write_bytes(events[:-7])  # as while it is written
    found = curves(of_files(str(tmp_path / "runs")))
    assert set(found) == {"train_loss", "val_loss"}
    assert [step for step, _ in found["val_loss"]] == [7, 15, 23]
    assert found["val_loss"][0][1] == pytest.approx(0.2114831507205963)


def test_event_files_without_tensorboard_are_answered_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing.event_file_loader", None)
    with pytest.raises(Failed, match=r"install it: .*tensorboard"):
        of_files(str(SAID / "events.out.tfevents.1794989696.host.1.0"))


def test_json_lines_with_nested_objects_and_lines_that_are_none(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_bytes(
        b'{"step": 1, "loss": 0.5, "val": {"acc": 0.75}, "ok": true, "text": "x", "l": [1]}\n'
        b"noise\n[1, 2]\n\xff\xfe\n" + b"[" * 100_000 + b"\n" + b'{"a":' * 5000 + b"\n"
        b'{"epoch": 2, "loss": NaN, "__proto__": 1}\n{"step": 3, "lo'
    )
    found = curves(of_files(str(file)))
    assert found["val/acc"] == [(1, 0.75)]
    assert found["loss"][0] == (1, 0.5) and found["loss"][1][0] == 2
    assert math.isnan(found["loss"][1][1])
    assert set(found) == {"loss", "val/acc", "__proto__"}


def test_hostile_files_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"loss,step\n" + b"9" * (3 << 20) + b'\n"open quote\n')
    (tmp_path / "b.csv").write_bytes(b"loss\0,step\n1,2\n")
    (tmp_path / "c.csv").write_bytes(bytes(range(256)) * 100)
    (tmp_path / "d.jsonl").write_bytes(b'{"loss": ' + b"1" * 10_000 + b"}\n")
    os.mkfifo(tmp_path / "e.csv")
    (tmp_path / "f.csv").symlink_to(tmp_path)
    (tmp_path / "g.csv").write_bytes(b"step,loss\n1,0.5\n2,\n3,1e999,5\n")
    found = curves(of_files(str(tmp_path)))
    assert found["loss"][-2:] == [(1, 0.5), (3, math.inf)]


def test_a_place_that_is_not_there_has_no_metrics(tmp_path: Path) -> None:
    assert curves(of_files(str(tmp_path / "none"))) == {}


def test_reports_of_an_attempt_are_read_where_they_were_written(tmp_path: Path) -> None:
    lines = [{"at_ms": 5, "step": n, "metrics": {"loss": 1 / (1 + n)}} for n in range(3)]
    (tmp_path / "7.1.metrics").write_text("".join(json.dumps(line) + "\n" for line in lines))
    reports = Tail(str(tmp_path / "7.1.metrics"), reports=True)
    assert not reports.read(1 << 20, ended=True)
    assert curves(reports.metrics) == {"loss": [(0, 1), (1, 0.5), (2, 1 / 3)]}
    there_are_none = Tail(str(tmp_path / "8.1.metrics"), reports=True)
    assert not there_are_none.read(1 << 20, ended=True)
    assert curves(there_are_none.metrics) == {}


def test_reports_stand_for_files_and_these_for_the_log_and_that_for_the_errors(
    tmp_path: Path,
) -> None:
    (tmp_path / "err").write_text("step 1 loss=8 acc=8 lr=8 eps=8\n")
    (tmp_path / "log").write_text("step 1 loss=9 acc=9 lr=1\n")
    (tmp_path / "files.csv").write_text("step,loss,acc\n1,7,0.25\n")
    (tmp_path / "reports").write_text('{"step": 1, "metrics": {"loss": 0.5}}\n')
    log, err, folder, reports = (str(tmp_path / n) for n in ("log", "err", "files.csv", "reports"))
    found = read_attempt(Spec(1, 1, log=log, err=err, folder=folder, reports=[reports]))
    values = {name: series.last[1] for name, series in found.items() if series.last}
    assert values == {"loss": 0.5, "acc": 0.25, "lr": 1, "eps": 8}
