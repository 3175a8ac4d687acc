"""What there is at a cluster: read from the text of `sinfo` and `scontrol show config`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.core.model import Exit
from stoker.executors.slurm.squeue import exit_of_pair

SINFO_FORMAT = "%D|%G|%f"


@dataclass(frozen=True, slots=True)
class Nodes:
    """So many nodes that are alike."""

    count: int
    gpus: int
    types: tuple[str, ...]  # of GPUs
    shards: int
    mps: int
    features: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What is known of a cluster; the defaults are Slurm's own."""

    nodes: tuple[Nodes, ...] = ()
    version: str = ""
    most_tasks: int = 1000  # of one array
    accounting: bool = False
    launch_s: int = 10  # how long a node may take to begin with a job

    @property
    def gpus(self) -> int:
        """All GPUs of all nodes."""
        return sum(node.count * node.gpus for node in self.nodes)

    @property
    def types(self) -> tuple[str, ...]:
        """All types of GPUs."""
        return tuple(dict.fromkeys(kind for node in self.nodes for kind in node.types))

    @property
    def features(self) -> tuple[str, ...]:
        """All features of nodes."""
        return tuple(dict.fromkeys(name for node in self.nodes for name in node.features))

    def parts_of_a_gpu(self, kind: str) -> int | None:
        """Into how many shards (or percent of MPS) a GPU is divided; None where there are none.

        Where nodes differ it is the largest number, so that no job gets more than it asked for.
        """
        parts = [
            (node.shards if kind == "shard" else node.mps) // node.gpus
            for node in self.nodes
            if node.gpus
        ]
        return max(parts, default=0) or None


def nodes_from_text(text: str) -> tuple[Nodes, ...]:
    """The nodes of `sinfo --noheader -o` with SINFO_FORMAT."""
    found: list[Nodes] = []
    for line in text.splitlines():
        count, _, rest = line.partition("|")
        gres, _, features = rest.partition("|")
        if not count.strip().isdecimal():
            continue
        numbers, types = _resources(gres)
        names = () if features.strip() in ("", "(null)") else tuple(features.strip().split(","))
        found.append(
            Nodes(
                int(count),
                numbers.get("gpu", 0),
                types,
                numbers.get("shard", 0),
                numbers.get("mps", 0),
                names,
            )
        )
    return tuple(found)


def _resources(text: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """From `gpu:a100:4(S:0-1),shard:16`: how many of each, and the types of GPUs."""
    numbers: dict[str, int] = {}
    types: list[str] = []
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        words = part.strip().split(":")
        match = re.fullmatch(r"(\d+)([KMG]?)", words[-1])
        if len(words) < 2 or match is None:
            continue
        factor = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}[match[2]]
        numbers[words[0]] = numbers.get(words[0], 0) + int(match[1]) * factor
        if words[0] == "gpu" and len(words) == 3:
            types.append(words[1])
    return numbers, tuple(dict.fromkeys(types))


def facts_from_config(text: str, nodes: tuple[Nodes, ...]) -> ClusterFacts:
    """From the lines `Name = value` of `scontrol show config`."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            values[name.strip().lower()] = value.strip()
    largest = _first_number(values.get("maxarraysize", ""), 1001)
    storage = values.get("accountingstoragetype", "")
    return ClusterFacts(
        nodes,
        values.get("slurm_version", ""),
        max(1, min(1000, largest - 1)),
        storage.endswith("slurmdbd"),
        _first_number(values.get("batchstarttimeout", ""), 10),
    )


def _first_number(text: str, default: int) -> int:
    match = re.match(r"\d+", text)
    return int(match[0]) if match is not None else default


@dataclass(frozen=True, slots=True)
class Accounted:
    """How a job ended by the word of the accounting."""

    id: str
    name: str
    state: str
    exit: Exit | None


SACCT_FIELDS = "JobID,JobName,State,ExitCode"


def accounted_from_text(text: str) -> list[Accounted]:
    """The lines of `sacct --noheader --parsable2 --allocations` with SACCT_FIELDS."""
    found: list[Accounted] = []
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) != 4 or not parts[2]:
            continue
        state = parts[2].split()[0]  # of e.g. "CANCELLED by 1000"
        found.append(Accounted(parts[0], parts[1], state, exit_of_pair(parts[3])))
    return found
