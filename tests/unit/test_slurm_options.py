"""What a job needs, in the words of sbatch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.core.commands import Awaited, HandOver
from stoker.core.model import Need, Terms
from stoker.errors import UsageError
from stoker.executors.slurm.facts import ClusterFacts, Nodes
from stoker.executors.slurm.options import (
    ClusterConfig,
    Refused,
    check_options,
    directives,
    warnings_for,
)

NOW = 1_700_000_000_000
SHARDS = ClusterFacts((Nodes(2, 4, ("a100",), 16, 0, ()),))
MPS = ClusterFacts((Nodes(2, 4, (), 0, 400, ()),))
PLAIN = ClusterFacts((Nodes(2, 4, (), 0, 0, ()),))


def said(
    need: Need | None = None,
    terms: Terms | None = None,
    *,
    priority: int = 0,
    at_ms: int | None = None,
    after: tuple[Awaited, ...] = (),
    options: tuple[str, ...] = (),
    facts: ClusterFacts = PLAIN,
    config: ClusterConfig | None = None,
) -> list[str]:
    terms = terms or Terms(executor="slurm")
    order = HandOver(7, 1, "slurm", need or Need(), terms, priority, at_ms, after)
    ids = {(3, 1): "812_4", (4, 2): "900"}
    lines = directives(
        order,
        options,
        facts,
        config or ClusterConfig(),
        lambda job_id, attempt: ids.get((job_id, attempt)),
        NOW,
    )
    words = [" ".join(line) for line in lines]
    assert words[:3] == ["--nodes=1", "--ntasks=1", "--no-requeue"]
    return words[3:]


@pytest.mark.parametrize(
    ("need", "words"),
    [
        (Need(), ["--gres=gpu:1"]),
        (Need(4, on=("a100",)), ["--gres=gpu:a100:4"]),
        (Need(0), []),
        (Need(0, cpus=3), ["--cpus-per-task=3"]),
        (Need(2, cpus=8, exclusive=True), ["--gres=gpu:2", "--cpus-per-task=8"]),
    ],
)
def test_needs(need: Need, words: list[str]) -> None:
    assert said(need) == words


@pytest.mark.parametrize(
    ("share_milli", "facts", "word"),
    [
        (500, SHARDS, "--gres=shard:2"),
        (300, SHARDS, "--gres=shard:2"),
        (10, SHARDS, "--gres=shard:1"),
        (250, MPS, "--gres=mps:25"),
    ],
)
def test_a_share_is_at_least_what_was_asked_for(
    share_milli: int, facts: ClusterFacts, word: str
) -> None:
    assert said(Need(1, share_milli=share_milli), facts=facts) == [word]


def test_a_share_is_refused_where_gpus_are_not_divided() -> None:
    with pytest.raises(Refused, match="neither gres/shard nor gres/mps"):
        said(Need(1, share_milli=500))


def test_times_and_signals() -> None:
    terms = Terms(90_000, signal=10, signal_before_ms=1_500, executor="slurm")
    assert said(Need(0), terms, at_ms=NOW + 60_500) == [
        "--time=2",
        "--signal=B:USR1@2",
        "--begin=2023-11-14T22:14:21",
    ]
    assert said(Need(0), at_ms=NOW - 1) == []


def test_a_slice_is_the_time_limit_unless_that_is_shorter() -> None:
    terms = Terms(slice_ms=120_000, executor="slurm")
    assert said(Need(0), terms) == ["--time=2"]
    assert said(Need(0), replace(terms, time_limit_ms=600_000)) == ["--time=2"]
    assert said(Need(0), replace(terms, time_limit_ms=60_000)) == ["--time=1"]


@pytest.mark.parametrize(("priority", "word"), [(5, "--nice=5"), (-5, "--nice=-5")])
def test_a_priority_is_niceness(priority: int, word: str) -> None:
    assert said(Need(0), priority=priority) == [word]


def test_requirements_are_dependencies_by_slurms_own_ids() -> None:
    after = (Awaited(3, 1, True), Awaited(4, 2, False), Awaited(5, 1, True))
    assert said(Need(0), after=after) == ["--dependency=afterok:812_4,afterany:900"]
    with pytest.raises(Refused, match="beside --after"):
        said(Need(0), after=after, options=("--dependency=singleton",))


def test_what_is_set_comes_before_what_the_job_says_and_so_gives_way() -> None:
    config = ClusterConfig("main", "lab", "high", ("--exclude=n1",))
    assert said(Need(0), options=("-p", "other"), config=config) == [
        "--partition=main",
        "--account=lab",
        "--qos=high",
        "--exclude=n1",
        "-p other",
    ]


def test_memory_is_a_constraint_on_nodes_whose_gpus_have_it() -> None:
    config = ClusterConfig(gpu_memory=(("v100", 32_768), ("a100", 81_920), ("h100", 81_920)))
    assert said(Need(0, mem_mib=None), config=config) == []
    assert said(Need(1, mem_mib=40_000), config=config)[1] == "--constraint=a100|h100"
    with pytest.raises(Refused, match=r"the largest at the cluster have 80\.0 GiB"):
        said(Need(1, mem_mib=100_000), config=config)
    need = Need(1, mem_mib=8_192)
    assert warnings_for(need, config) == []
    assert "gets 1 whole GPU of any size" in warnings_for(need, ClusterConfig())[0]
    part = replace(need, share_milli=500)
    assert "gets its part of a GPU of any size" in warnings_for(part, ClusterConfig())[0]


@pytest.mark.parametrize(
    "words",
    [
        ["--partition=long"],
        ["-p", "long"],
        ["-plong", "--exclusive", "--mem=4G", "-C", "a&b"],
        ["--requeue"],
        [],
    ],
)
def test_options_are_passed_on_as_they_are(words: list[str]) -> None:
    check_options(words)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--array=0-3"], "--array"),
        (["-a", "0-3"], "-a"),
        (["-Jx"], "-J"),
        (["--output", "x"], "--output"),
        (["--wrap=rm"], "--wrap"),
        (["--wait"], "--wait"),
        (["--export=NONE"], "--export"),
        (["script.sh"], "script.sh"),
        (["--exclusive=user", "script.sh"], "script.sh"),
        (["--partition=a\nb"], "control character"),
    ],
)
def test_options_that_are_ours_or_none_are_refused(words: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        check_options(words)
