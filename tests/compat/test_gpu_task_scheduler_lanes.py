"""What the entries of `gpu` mean as needs of jobs."""

from __future__ import annotations

from gpu_task_scheduler.lanes import Lane, lanes


def test_single_gpus_are_one_lane_that_stoker_hands_out() -> None:
    assert lanes(["0", "2"]) == [
        Lane({"gpus": 1, "on": ["0", "2"], "prefer": ["0", "2"]}, None),
    ]


def test_pairs_and_mixtures_are_a_lane_each() -> None:
    assert lanes(["0", "2,1"]) == [
        Lane({"gpus": 1, "on": ["0"], "prefer": ["0"]}, 1),
        Lane({"gpus": 2, "on": ["2", "1"], "prefer": ["2", "1"]}, 1),
    ]


def test_a_gpu_that_is_named_several_times_is_shared_and_never_over_full() -> None:
    assert lanes(["0", "0", "1"])[0] == Lane({"share": 0.5, "on": ["0"]}, 1)
    for times in range(2, 20):
        share = lanes(["0"] * times)[0].fields["share"]
        assert round(share * 1000) * times <= 1000


def test_an_entry_that_hides_all_gpus_needs_none() -> None:
    assert lanes(["", "-1"]) == [Lane({"gpus": 0}, 1)] * 2
