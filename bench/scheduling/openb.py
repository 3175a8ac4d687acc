"""Alibaba's GPU cluster filled up: how much of it is allocated when 130 % have come.

As in the paper of FGD: pods are drawn from the trace, with replacement, until they ask for 130 %
of all GPUs; none of them ever ends. A pod goes to one node, which must have its processors and
its memory, and where the trace says so, one of its models of GPU. Which GPUs it gets is left to
`core.fit.best`, among those of all nodes where it fits.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from stoker.core.fit import best, reservation
from stoker.core.gpu import Gpu
from stoker.core.model import WHOLE_SHARE_MILLI, Need

LOAD = 1.3


@dataclass(slots=True)
class Node:
    """A machine."""

    cpu_milli: int
    memory_mib: int
    model: str
    gpus: list[Gpu] = field(default_factory=list)
    by_used: dict[int, list[Gpu]] = field(default_factory=dict)  # by thousandths, first of each

    def count(self) -> None:
        """Sort its GPUs by how much of them is taken."""
        self.by_used = {}
        for gpu in self.gpus:
            self.by_used.setdefault(gpu.share_used_milli, []).append(gpu)


@dataclass(frozen=True, slots=True)
class Pod:
    """What one asks for."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]

    @property
    def need(self) -> Need:
        """The same, in our words."""
        if self.gpus == 1 and self.gpu_milli < WHOLE_SHARE_MILLI:
            return Need(1, share_milli=self.gpu_milli)
        return Need(self.gpus)

    @property
    def milli(self) -> int:
        """Thousandths of GPUs in all."""
        return self.gpus * self.gpu_milli


def allocated_percent(nodes_csv: Path, pods_csv: Path, seed: int) -> float:
    """How much of all GPUs is allocated in the end."""
    nodes, pods = _nodes(nodes_csv), _pods(pods_csv)
    home = {gpu.id: node for node in nodes for gpu in node.gpus}
    capacity = len(home) * WHOLE_SHARE_MILLI
    random, asked, allocated = Random(seed), 0, 0
    number = 0
    while asked < LOAD * capacity:
        pod = random.choice(pods)
        asked += pod.milli
        number += 1
        chosen = _chosen(pod, nodes)
        if not chosen:
            continue
        allocated += pod.milli
        node = home[chosen[0].id]
        node.cpu_milli -= pod.cpu_milli
        node.memory_mib -= pod.memory_mib
        for gpu in chosen:
            gpu.held_by[number] = reservation(pod.need, gpu)
        node.count()
    return 100 * allocated / capacity


def _chosen(pod: Pod, nodes: list[Node]) -> list[Gpu]:
    """Where our rule puts it: of GPUs that it can't tell apart but by number, the first counts."""
    need = pod.need
    candidates: dict[int, Sequence[Gpu]] = {}
    for node in nodes:
        if node.cpu_milli < pod.cpu_milli or node.memory_mib < pod.memory_mib:
            continue
        if pod.models and node.model not in pod.models:
            continue
        if need.share_milli is not None:
            for used, gpus in node.by_used.items():
                if used + need.share_milli <= WHOLE_SHARE_MILLI:
                    candidates.setdefault(used, gpus[:1])
        elif need.gpus <= len(free := node.by_used.get(0, ())):
            # Several on one node: that which will have the fewest left.
            candidates.setdefault(len(free), free)
    if not candidates:
        return []
    if need.share_milli is not None:
        return best(need, [gpu for some in candidates.values() for gpu in some])[:1]
    fewest = min(len(some) for some in candidates.values())
    return best(need, candidates[fewest])[: need.gpus]


def _nodes(path: Path) -> list[Node]:
    nodes, number = [], 0
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            node = Node(int(row["cpu_milli"]), int(row["memory_mib"]), row["model"])
            for _ in range(int(row["gpu"])):
                node.gpus.append(Gpu(str(number), 10_000, label=str(number)))
                number += 1
            node.count()
            nodes.append(node)
    return nodes


def _pods(path: Path) -> list[Pod]:
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Pod(
                int(row["cpu_milli"]),
                int(row["memory_mib"]),
                int(row["num_gpu"]),
                int(row["gpu_milli"]),
                tuple(filter(None, row["gpu_spec"].split("|"))),
            )
            for row in csv.DictReader(file)
        ]
