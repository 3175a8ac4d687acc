"""What hypothesis may draw for the core: needs, terms, and jobs as users ask for them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from stoker.core.model import Need, Terms

GPU_IDS = ("0", "1", "2", "10")
SIZES_MIB = (None, 8_192, 24_576, 49_152)

needs = st.sampled_from(
    (
        Need(),
        Need(2),
        Need(4),
        Need(1, share_milli=300),
        Need(1, share_milli=700),
        Need(1, share_milli=250, mem_mib=2_048),
        Need(1, mem_mib=4_096),
        Need(1, mem_mib=16_384),
        Need(2, mem_mib=6_000),
        Need(1, mem_mib=1_000, max_per_gpu=2),
        Need(1, share_milli=200, max_per_gpu=1),
        Need(1, mem_mib=4_096, exclusive=True),
        Need(1, on=("0", "10")),
        Need(2, on=("1", "2", "77")),
        Need(1, prefer=("10", "2")),
        Need(1, cpus=2),
        Need(2, cpus=3),
        Need(0, cpus=1),
        Need(0, cpus=4),
        Need(0),
        Need(1, cpus=99),
    )
)
terms_here = st.builds(
    Terms,
    time_limit_ms=st.sampled_from((None, None, 1, 2_000, 30_000)),
    grace_ms=st.sampled_from((0, 500)),
    signal=st.sampled_from((None, 10)),
    signal_before_ms=st.sampled_from((0, 300, 5_000)),
    retries=st.sampled_from((0, 0, 1, 3)),
    attached=st.booleans(),
    run_kind=st.sampled_from(("", "short", "long")),
)
# By its exit code, when its slice is over or without a trace: such a job is put back.
terms_going_on = st.builds(
    Terms,
    time_limit_ms=st.sampled_from((None, None, 30_000)),
    grace_ms=st.sampled_from((0, 500)),
    signal=st.sampled_from((None, 12)),
    signal_before_ms=st.sampled_from((0, 300)),
    retries=st.sampled_from((0, 1)),
    requeue_on=st.sampled_from(((), (3,))),
    slice_ms=st.sampled_from((None, 1_000)),
    keep_place=st.booleans(),
    stuck_after=st.sampled_from((0, 1, 3)),
    requeue=st.booleans(),
    preemptible=st.booleans(),
    yields=st.sampled_from((1, 3)),
)
terms_urgent = st.builds(
    Terms,
    time_limit_ms=st.sampled_from((None, 2_000)),
    urgent=st.just(True),
    attached=st.booleans(),
)
terms_at_cluster = st.builds(
    Terms,
    time_limit_ms=st.sampled_from((None, 2_000)),
    grace_ms=st.sampled_from((0, 500)),
    retries=st.sampled_from((0, 1)),
    executor=st.just("slurm"),
)
terms = st.one_of(
    terms_here, terms_here, terms_going_on, terms_going_on, terms_urgent, terms_at_cluster
)
groups = st.sampled_from((None, None, "a", "b"))
some_groups = st.sampled_from(("a", "b"))
priorities = st.sampled_from((0, 0, 0, -2, 3))
picks = st.integers(0, 999)


@dataclass(frozen=True)
class Wanted:
    """A job as its user asks for it; `after` picks from the jobs that are there."""

    need: Need
    terms: Terms
    priority: int
    group: str | None
    held: bool
    after_ms: int | None
    after: tuple[tuple[int, bool], ...]
    span: tuple[int, int, bool] | None  # from which one, how many more, must all succeed
    process: str | None  # one that is not ours


processes = st.sampled_from(("4711 98765 boot python train.py", "12 3 boot sh"))
wanted = st.builds(
    Wanted,
    needs,
    terms,
    priorities,
    groups,
    held=st.sampled_from((False, False, False, False, True)),
    after_ms=st.sampled_from((None, None, None, None, 1_000, -5)),
    after=st.one_of(
        st.just(()), st.just(()), st.lists(st.tuples(picks, st.booleans()), max_size=2).map(tuple)
    ),
    span=st.one_of(st.none(), st.none(), st.tuples(picks, st.integers(0, 4), st.booleans())),
    process=st.one_of(st.none(), st.none(), st.none(), processes),
)
