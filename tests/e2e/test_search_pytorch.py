"""A search over a real training with PyTorch: its best point is found, and can be run again."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from peers import python_with_torch
from stoker_home import StokerHome
from waiting import eventually

SAMPLES = 12  # the first ten of them are random

# A curve is to be learned. It prints as people do, and knows nothing of Stoker.
TRAIN = """
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--hidden", type=int)
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(7)
x = torch.rand(256, 2) * 4 - 2
y = torch.sin(3 * x[:, :1]) * x[:, 1:]
train, val = (x[:192], y[:192]), (x[192:], y[192:])
model = nn.Sequential(nn.Linear(2, args.hidden), nn.Tanh(), nn.Linear(args.hidden, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
loss_fn = nn.MSELoss()
print("torch", torch.__version__)
for epoch in range(1, 31):
    for batch in torch.randperm(192).split(32):
        optimizer.zero_grad()
        loss = loss_fn(model(train[0][batch]), train[1][batch])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        val_loss = loss_fn(model(val[0]), val[1])
    print(f"epoch {epoch}: train_loss={loss.item():.6f} val_loss={val_loss.item():.6f}")
"""


def _shown(home: StokerHome, *words: str) -> Any:
    return json.loads(home.stoker(*words, "--json"))


@pytest.mark.timeout(900)  # PyTorch may have to be installed first.
def test_the_best_point_of_a_searched_training_is_found_and_run_again_to_the_same_value(
    home: StokerHome,
) -> None:
    python = python_with_torch()
    (home.work / "train.py").write_text(TRAIN)
    home.start(gpus="0-3")
    home.stoker(
        "sweep", "lr=loguniform(1e-5,1e-1)", "hidden=choice(4,32)", "--minimize", "val_loss",
        "--samples", str(SAMPLES), "--max-running", "2", "--seed", "1", "--name", "s",
        "--", str(python), "train.py", "--lr", "{lr}", "--hidden", "{hidden}",
    )  # fmt: skip

    def progress() -> dict[str, Any] | None:
        [search] = home.call("searches", name="s")["searches"]
        return search["progress"] if search["state"] == "ended" else None

    ended = eventually(progress, "the search ends", timeout_s=300)
    assert ended is not None
    assert (ended["trials"], ended["told"], ended["over"]) == (
        SAMPLES,
        SAMPLES,
        "all trials were made",
    )

    rows = _shown(home, "results", "s", "--minimize", "val_loss")["results"]
    assert [row["state"] for row in rows] == ["succeeded"] * SAMPLES
    reached = [row["metrics"]["val_loss"]["best"] for row in rows]
    assert reached == sorted(reached) and reached[0] < reached[-1] / 2
    [best] = _shown(home, "results", "best", "s", "--minimize", "val_loss")["best"]
    assert best["id"] == rows[0]["id"]
    assert [best["metrics"]["val_loss"]["best"]] == [reached[0]]
    assert [one[1] for one in ended["best"]] == [reached[0]]

    again = home.stoker(*shlex.split(best["run_again"])[1:]).strip()
    home.stoker("wait", again)
    [row] = _shown(home, "results", again, "--minimize", "val_loss")["results"]
    loss, before = row["metrics"]["val_loss"], best["metrics"]["val_loss"]
    assert (loss["best"], loss["best_step"]) == (before["best"], before["best_step"])
