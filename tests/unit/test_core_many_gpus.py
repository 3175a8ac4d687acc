"""Thousands of GPUs: they are in order whatever the order in which they came, at little cost."""

from __future__ import annotations

import random

import pytest

from stoker.core import events as ev
from stoker.core import fit
from stoker.core.check import check
from stoker.core.fit import natural
from stoker.core.state import State
from stoker.daemon.requests import gpus

MANY = 4_096


def added(state: State, *gpus: str, label: str = "") -> None:
    for gpu in gpus:
        vendor = "nvidia" if label else ""
        state.apply(ev.GpuAdded(state.now_ms, gpu, 1024, label=label, vendor=vendor))


@pytest.mark.parametrize("order", ["forwards", "backwards", "shuffled", "twice"])
def test_declaring_many_gpus_compares_each_with_few_others(
    monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    names = [str(number) for number in range(MANY)]
    if order == "backwards":
        names.reverse()
    elif order == "shuffled":
        random.Random(4).shuffle(names)
    elif order == "twice":
        names += names
    compared = 0

    def counting(gpu_id: str) -> tuple[int, int, str]:
        nonlocal compared
        compared += 1
        return natural(gpu_id)

    state = State(now_ms=1)
    monkeypatch.setattr(fit, "natural", counting)
    added(state, *names)
    assert list(state.gpus) == [str(number) for number in range(MANY)]
    assert compared < 20 * len(names)
    check(state)


def test_gpus_are_in_the_order_of_what_they_are_called_now() -> None:
    state = State(now_ms=1)
    added(state, "GPU-c", label="2")
    added(state, "GPU-a", label="10")
    added(state, "GPU-b", label="0")
    assert [gpu.shown_as for gpu in state.gpus.values()] == ["0", "2", "10"]
    added(state, "GPU-b", label="11")
    added(state, "GPU-a", label="1")
    assert [gpu.shown_as for gpu in state.gpus.values()] == ["1", "2", "11"]
    assert list(state.gpus) == ["GPU-a", "GPU-c", "GPU-b"]
    for gpu_id, gpu in state.gpus.items():
        assert gpu.id == gpu_id
    check(state)


def test_declaring_gpus_keeps_those_that_are_named_and_takes_others_away() -> None:
    state = State(now_ms=1)
    added(state, "0", "1", "2")
    decided = gpus.declare("1-3:24G")(state)
    for event in decided.events:
        state.apply(event)
    assert [(gpu.id, gpu.memory_mib) for gpu in state.gpus.values()] == [
        (name, 24 * 1024) for name in ("1", "2", "3")
    ]
