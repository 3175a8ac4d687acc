"""Which parameters decide how long jobs take."""

from __future__ import annotations

from stoker.learn.parameters import Run, most_alike, that_matter

MINUTE_MS = 60_000
# The batch size decides; the seed and the rate do not.
RUNS = [
    Run((640 // size * 10 + seed % 3) * MINUTE_MS, 1, {"batch": size, "seed": seed, "lr": lr})
    for seed, (size, lr) in enumerate(
        (size, lr) for size in (16, 32, 64) for lr in (0.1, 0.01, 0.2)
    )
]


def test_a_parameter_matters_if_its_values_tell_the_runs_apart() -> None:
    assert that_matter(RUNS) == ["batch"]
    assert that_matter(RUNS[:3]) == [], "three runs tell too little"


def test_runs_with_the_same_value_of_what_matters_tell_most() -> None:
    told = most_alike(RUNS, 1, {"batch": 32, "seed": 99, "lr": 7})
    assert told == [run.ran_ms for run in RUNS if run.params["batch"] == 32]


def test_of_a_value_that_was_never_seen_the_nearest_tells_most() -> None:
    told = most_alike(RUNS, 1, {"batch": 128})
    assert told == [run.ran_ms for run in RUNS if run.params["batch"] == 64]
    assert most_alike(RUNS, 1, {"batch": "auto"}) == [run.ran_ms for run in RUNS]


def test_runs_on_as_many_gpus_come_first() -> None:
    wide = Run(MINUTE_MS, 4, {"batch": 16})
    assert most_alike([*RUNS, wide], 4, {}) == [MINUTE_MS]
    assert len(most_alike([*RUNS, wide], 2, {})) == len(RUNS) + 1
