"""Sweeps, feeds and batches from Python: the same as on the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from library_home import library
from stoker import Client
from stoker.errors import NotFound, UsageError
from stoker_home import StokerHome
from waiting import PATIENCE_S, eventually

__all__ = ["library"]


@pytest.fixture
def client(library: StokerHome) -> Client:
    return Client(library.home.root)


# --- sweeps ---------------------------------------------------------------------------------------


def test_a_sweep_queues_a_job_a_point_and_tells_what_came_of_each(client: Client) -> None:
    sweep = client.sweep(
        "echo {lr} {bs} {model}-{opt}",
        {"lr": [0.1, 1e-2], "bs": range(16, 33, 16), ("model", "opt"): [("vit", "adamw")]},
        gpus=0,
        name="tried",
    )
    assert (sweep.name, sweep.count, len(sweep.ids)) == ("tried", 4, 4)
    client.wait(sweep.ids, timeout=PATIENCE_S)
    points = client.sweep_points("tried")
    assert [point["params"]["lr"] for point in points] == [0.1, 0.1, 0.01, 0.01]
    assert {point["state"] for point in points} == {"succeeded"}
    assert client.logs(sweep.ids[-1]) == "0.01 32 vit-adamw\n"
    (listed,) = client.sweeps()
    assert (listed["sweep"], listed["points"], listed["varied"]) == ("tried", 4, ["lr", "bs"])


def test_a_sweep_from_python_and_one_from_the_command_line_know_each_other(
    client: Client, library: StokerHome
) -> None:
    library.stoker("sweep", "lr=1,2", "--gpus", "0", "--", "true", "{lr}")
    client.wait(client.ls(), timeout=PATIENCE_S)
    again = client.sweep(["true", "{lr}"], {"lr": [1, 2, 3]}, gpus=0)
    assert (again.succeeded_before, len(again.ids)) == (2, 1)
    assert len(client.sweep(["true", "{lr}"], {"lr": [1, 2]}, gpus=0, rerun="all").ids) == 2


def test_a_sweep_takes_what_the_command_line_takes(client: Client, library: StokerHome) -> None:
    drawn = client.sweep(
        ["true", "x"], {"wd": "loguniform(1e-6,1e-2)", "n": {"min": 1, "max": 9}},
        samples=5, seed=3, where="n > 1", repeat={"seed": 2}, hold=True, max_running=2,
    )  # fmt: skip
    assert drawn.count == len(drawn.ids) == 10
    first = client.show(drawn.ids[0])[0]
    assert first["argv"][:3] == ["true", "x", "--wd"] and first["params"]["n"] > 1
    (group,) = client.groups()
    assert (group["group"], group["max_running"]) == (drawn.name, 2)
    (library.work / "sweep.yaml").write_text(
        "method: grid\nname: of-a-file\ncommand: [echo, '${args}']\n"
        "parameters: {a: {values: [1, 2]}, b: {value: 7}}\n"
    )
    of_file = client.sweep(file="sweep.yaml", params={"b": [8, 9]}, hold=True, style="hydra")
    assert (of_file.name, of_file.count) == ("of-a-file", 4)
    out = client.sweep("echo {x}", {"x": [1, 2]}, out="run-{point}.txt", gpus=0)
    client.wait(out.ids, timeout=PATIENCE_S)
    assert len(list(library.work.glob("run-*.txt"))) == 2


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"params": {}}, "no parameter"),
        ({"params": {"lr": []}}, "no values"),
        ({"params": {"lr": "uniform(0,1)"}}, "not a list of values"),
        ({"params": {("a", "b"): [(1,)]}}, "2 values"),
        ({"params": {"lr": [1]}, "rerun": "some"}, "rerun"),
        ({"params": {"lr": [1]}, "style": "other"}, "style"),
        ({"params": {"lr": [1]}, "repeat": {"a": 0}}, "repeat"),
        ({"params": {"lr": [1]}, "gpu": 1}, "no option"),
        ({"params": {"lr": [object()]}}, "can't be a parameter"),
    ],
)
def test_a_sweep_that_makes_no_sense_queues_nothing(
    client: Client, fields: dict[str, object], match: str
) -> None:
    with pytest.raises(UsageError, match=match):
        client.sweep("true", **fields)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no command"):
        client.sweep(params={"a": [1]})
    assert client.ls() == [] and client.sweep_points("nothing") == []


# --- feeds ----------------------------------------------------------------------------------------


def test_a_feed_runs_a_command_a_line_and_tells_how_each_ended(client: Client) -> None:
    text = "# a comment\n\necho one | tr o 0\nexit 3\n<<<\nif true\nthen echo block\nfi\n>>>\n"
    ended = client.feed(text, gpus=0, group="fed")
    assert [job["state"] for job in ended] == ["succeeded", "failed", "succeeded"]
    assert [client.logs(job["id"]) for job in ended] == ["0ne\n", "", "block\n"]
    assert [job["id"] for job in client.ls(group="fed")] == [job["id"] for job in ended]


def test_a_feed_may_be_a_list_a_file_or_nothing(client: Client, library: StokerHome) -> None:
    assert [job["state"] for job in client.feed(["true", "false"], gpus=0)] == [
        "succeeded",
        "failed",
    ]
    (library.work / "commands.txt").write_text("true \\\n  && true\n")
    assert len(client.feed(Path("commands.txt"), gpus=0)) == 1
    assert client.feed([]) == []
    assert client.feed("# nothing\n") == []


def test_lines_are_queued_as_they_come(client: Client, library: StokerHome) -> None:
    began = library.work / "began"

    def lines() -> Iterator[str]:
        yield f"touch {began}"
        eventually(began.exists, "the first has run before the second is known")
        yield "true"

    assert [job["state"] for job in client.feed(lines(), gpus=0)] == ["succeeded"] * 2


def test_a_bad_line_of_a_list_is_told_before_anything_is_queued(client: Client) -> None:
    with pytest.raises(UsageError, match="line 2"):
        client.feed(["true", ">>>"])
    with pytest.raises(UsageError, match="a line is text"):
        client.feed(["true", 7])  # type: ignore[list-item]
    unknown: Any = {"gpu": 1}  # A type checker refuses it, too.
    with pytest.raises(UsageError, match="no option"):
        client.feed(["true"], **unknown)
    assert client.ls() == []


def test_ctrl_c_in_a_feed_cancels_what_has_not_ended(library: StokerHome) -> None:
    script = "import stoker; stoker.Client().feed(['sleep 600'] * 6, gpus=1)"
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=library.env, cwd=library.work,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    eventually(lambda: len(library.jobs()) == 6, "all are queued")
    ids = sorted(library.jobs())
    library.until_pid(ids[0])
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE_S)
    states = {job["state"] for job in library.until_final(*ids)}
    assert states == {"cancelled"}


# --- batches --------------------------------------------------------------------------------------


def test_rows_are_queued_all_or_none(client: Client) -> None:
    rows: list[dict[str, object]] = [
        {"command": "echo first", "name": "a", "gpus": 0},
        {"command": ["echo", "second"], "name": "b", "gpus": 0, "after": "a", "env": {"X": 1}},
    ]
    batch = client.batch(rows, priority=2, retries=1)
    assert len(batch.ids) == 2
    assert {job["state"] for job in client.wait(batch.ids, timeout=PATIENCE_S)} == {"succeeded"}
    first, second = client.show(batch.ids)
    assert (first["priority"], first["retries"], first["group"]) == (2, 1, batch.group)
    assert second["after"] == [batch.ids[0]]
    with pytest.raises(UsageError, match="line 2: gpus"):
        client.batch([{"command": "true"}, {"command": "true", "gpus": "some"}])
    with pytest.raises(UsageError, match="no jobs"):
        client.batch([])
    with pytest.raises(UsageError, match="line 1"):
        client.batch([{"command": "true", "name": object()}])
    assert len(client.ls(all=True)) == 2


def test_a_file_is_queued_as_the_command_line_would(client: Client, library: StokerHome) -> None:
    (library.work / "jobs.csv").write_text("command,name,gpus\necho 1,one,0\necho 2,two,0\n")
    batch = client.batch("jobs.csv", group="mine")
    assert batch.group == "mine"
    client.wait(batch.ids, timeout=PATIENCE_S)
    assert [client.logs(job_id) for job_id in batch.ids] == ["1\n", "2\n"]
    (library.work / "jobs.jsonl").write_text(json.dumps({"command": "true", "gpus": 0}) + "\n")
    assert len(client.batch(Path("jobs.jsonl"), hold=True).ids) == 1
    bare = library.work / "bare.csv"
    bare.write_text("1,2\n3,4\n")
    wide = client.batch(bare, header=None, template="echo {0} {1}", gpus=0, num=1)
    assert [job["after_any"] for job in client.show(wide.ids)] == [[], [wide.ids[0]]]
    with pytest.raises(UsageError, match="can't read"):
        client.batch("nothing.csv")


def test_the_client_of_another_home_queues_there(
    client: Client, library: StokerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_HOME", str(library.root / "elsewhere"))
    client.sweep("true", {"x": [1]}, hold=True)
    client.batch([{"command": "true", "after": "b", "name": "a", "hold": True},
                  {"command": "true", "name": "b", "hold": True}])  # fmt: skip
    assert len(client.ls()) == 3
    assert not (library.root / "elsewhere").exists()
    with pytest.raises(NotFound):
        client.show(9_999_999)
