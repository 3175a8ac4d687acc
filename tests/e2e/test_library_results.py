"""Results and metrics from Python."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from library_home import library
from stoker import Client, report, submit
from stoker.errors import Failed, NotFound, UsageError
from stoker.library.results import Results
from stoker_home import StokerHome
from waiting import PATIENCE_S

__all__ = ["library"]

TRAIN = "echo loss=0.{lr}; echo loss=0.{lr}{seed}; echo the end was at {lr}"


@pytest.fixture
def client(library: StokerHome) -> Client:
    return Client(library.home.root)


def swept(client: Client, **how: Any) -> Any:
    sweep = client.sweep(TRAIN, {"lr": [3, 1, 2]}, repeat={"seed": 2}, gpus=0, **how)
    client.wait(sweep.ids, timeout=PATIENCE_S)
    return sweep


def test_results_are_records_with_the_best_first(client: Client) -> None:
    sweep = swept(client)
    results = client.results(sweep, minimize="loss")
    assert isinstance(results, Results) and results.varied == ["lr"] and results.repeat == "seed"
    assert [row.params for row in results] == [{"lr": 1}, {"lr": 2}, {"lr": 3}]
    assert results.best is results[0] and results.front == [results[0]]
    figure = results[0].metrics["loss"]
    assert (figure.goal, figure.runs, figure.best, figure.best_step) == ("min", 2, 0.1, 0)
    assert figure.last == pytest.approx(0.105) and results[0].ids == sweep.ids[2:4]
    runs = client.results(sweep.name, maximize=["loss"], single=True, top=2, sort="id")
    assert [row.id for row in runs] == sweep.ids[:2]
    best = runs.best
    assert best is not None and best.params == {"lr": 3, "seed": 1}
    assert len(client.results("last")) == 3 and client.results("last").best is None
    assert len(client.results(sweep.ids)) == len(client.results(group=sweep.name)) == 3


def test_what_does_not_exist_is_told(client: Client) -> None:
    swept(client)
    with pytest.raises(NotFound, match="did you mean loss"):
        client.results("last", minimize="los")
    with pytest.raises(UsageError, match="nothing was named"):
        client.results()
    errors: list[Exception] = []

    def elsewhere() -> None:
        try:
            client.results("last", metrics=r"end=end was at (\S+)")
        except UsageError as error:
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(PATIENCE_S)
    assert "main thread" in str(errors[0])
    found = client.results("last", metrics=r"end=end was at (\S+)", minimize="end")
    assert found[0].metrics["end"].best == 1


def test_a_job_and_a_future_tell_their_metrics(client: Client) -> None:
    def train() -> str:
        for step in range(3):
            report(step=step, loss=1 - step / 4)
        return "done"

    future = submit(train)
    assert future.result(PATIENCE_S) == "done"
    loss = future.metrics()["loss"]
    assert (loss.count, loss.last, loss.last_step, loss.max) == (3, 0.5, 2, 1)
    assert future.job_id is not None
    assert client.metrics(future) == client.metrics(future.job_id) == {"loss": loss}


def test_without_pandas_the_command_that_installs_it_is_told(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept(client)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Failed, match=r"pandas is missing; install it: .*pandas"):
        client.results("last").to_pandas()


def test_results_are_a_data_frame(client: Client) -> None:
    swept(client)
    frame = client.results("last", minimize="loss").to_pandas()
    assert list(frame["lr"]) == [1, 2, 3] and list(frame["best"]) == [True, False, False]
    assert frame["loss_best"].dtype.kind == "f" and list(frame["runs"]) == [2, 2, 2]
