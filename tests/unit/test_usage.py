"""What the GPUs were used for: split between jobs that share one, and between stretches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.store.usage import MOST_NAMED, Ran, usage
from stoker.web.failures import grouped


def ran(start: int, end: int | None, gpus: str = '["0"]', **more: object) -> Ran:
    about = {"number": 1, "state": "succeeded", "submitted_at_ms": 0, "group": "g", "user": "ann"}
    return Ran(gpus=gpus, started_at_ms=start, ended_at_ms=end, **(about | more))  # type: ignore[arg-type]


def test_a_shared_gpu_is_split_and_a_stretch_ends_at_its_edge() -> None:
    attempts = [
        ran(50, 150, group="a"),
        ran(50, 150, group="b", user="bob"),
        ran(180, None, '["0","1"]', state="running", group=None),
    ]
    found = usage(attempts, [0, 100, 200, 300], now_ms=250)
    assert found["busy_ms"] == [50, 50 + 40, 100]
    assert found["groups"] == [
        {"name": "a", "gpu_ms": [25, 25, 0]},
        {"name": "b", "gpu_ms": [25, 25, 0]},
        {"name": "", "gpu_ms": [0, 40, 100]},
    ]
    assert found["ended"] == [{}, {"succeeded": 2}, {}]
    assert found["started"] == [2, 1, 0]
    assert found["waited_ms"] == [50, 180, None]


def test_only_first_attempts_have_waited() -> None:
    again = ran(60, 70, number=2, state="failed", submitted_at_ms=1)
    found = usage([ran(10, 20, submitted_at_ms=1), again], [0, 100], now_ms=100)
    assert (found["waited_ms"], found["waited_long_ms"]) == ([9], [9])
    assert found["ended"] == [{"succeeded": 1, "failed": 1}]


spans = st.tuples(
    st.integers(0, 90), st.integers(1, 60), st.sampled_from(["0", "1", "2"]), st.integers(0, 70)
)


@given(st.lists(spans, max_size=40))
def test_what_groups_and_users_have_adds_up_to_what_was_in_use(
    found: list[tuple[int, int, str, int]],
) -> None:
    attempts = [
        ran(start, start + long, f'["{gpu}"]', group=f"g{who}", user=f"u{who % 3}")
        for start, long, gpu, who in found
    ]
    told = usage(attempts, [0, 40, 50, 120], now_ms=1000)
    in_use = {
        (gpu, ms) for start, long, gpu, _ in found for ms in range(start, min(120, start + long))
    }
    assert sum(told["busy_ms"]) == len(in_use)
    for kind in ("groups", "users"):
        total = sum(sum(one["gpu_ms"]) for one in told[kind])
        assert abs(total - len(in_use)) <= 3 * (MOST_NAMED + 1), "but for what is rounded"
        assert len(told[kind]) <= MOST_NAMED + 1


def test_failures_that_differ_in_numbers_and_paths_are_one() -> None:
    lines = ["CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0)", "No module named 'x'",
             "CUDA out of memory. Tried to allocate 512 MiB (GPU 3)", "", "",
             "can't open file '/data/1/train.py': [Errno 2]",
             "can't open file '/home/b/eval.py': [Errno 2]"]  # fmt: skip
    jobs = [
        {"id": 10 - n, "ended_at_ms": 100 - n, "group": "g" if n else None, "reason": f"exit {n}"}
        for n in range(len(lines))
    ]
    found = grouped(jobs, lines)
    assert [(one["count"], one["ids"]) for one in found] == [
        (2, [10, 8]), (2, [5, 4]), (1, [9]), (1, [7]), (1, [6])]  # fmt: skip
    assert found[0]["message"] == lines[0] and found[0]["groups"] == ["g"]
    assert found[3]["message"] == "exit 3"
    late = {"id": 1, "ended_at_ms": 1, "group": None, "reason": "time limit"}
    assert grouped([late], ["step 4711"])[0]["message"] == "time limit"
    assert (found[1]["first_at_ms"], found[1]["last_at_ms"]) == (94, 95)
