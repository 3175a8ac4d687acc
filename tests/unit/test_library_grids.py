"""Grids, and the folders of their points."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.library.grids import folder_name, grid


def test_a_grid_has_all_combinations_in_order() -> None:
    assert grid(lr=[0.1, 0.01], bs=range(1, 3)) == [
        {"lr": 0.1, "bs": 1},
        {"lr": 0.1, "bs": 2},
        {"lr": 0.01, "bs": 1},
        {"lr": 0.01, "bs": 2},
    ]


def test_several_spaces_come_one_after_the_other_and_share_the_keywords() -> None:
    points = grid({"method": ["GAN", "ALI"]}, {"method": ["WGAN"], "z": [1, 2]}, epochs=5)
    assert points == [
        {"method": "GAN", "epochs": 5},
        {"method": "ALI", "epochs": 5},
        {"method": "WGAN", "z": 1, "epochs": 5},
        {"method": "WGAN", "z": 2, "epochs": 5},
    ]


def test_a_single_value_is_the_same_in_all_points_and_a_string_is_single() -> None:
    assert grid(model="vit", lr=[1, 2]) == [{"model": "vit", "lr": 1}, {"model": "vit", "lr": 2}]
    assert grid() == [{}]
    assert grid(lr=[]) == []


def test_a_folder_can_be_read_and_is_safe() -> None:
    name = folder_name({"lr": 0.1, "data": "../a b/c"})
    assert name.startswith("lr=0.1,data=.._a_b_c~")
    assert "/" not in name


def test_values_that_look_alike_have_folders_of_their_own() -> None:
    names = {folder_name({"a": value}) for value in (1, "1", 1.0, True, [1], "x" * 60, "x" * 61)}
    assert len(names) == 7


def test_the_order_of_parameters_does_not_make_another_point() -> None:
    assert folder_name({"a": 1, "b": 2})[-8:] == folder_name({"b": 2, "a": 1})[-8:]


@given(st.dictionaries(st.text(max_size=50), st.text(max_size=300) | st.floats(), max_size=8))
def test_any_point_has_a_name_that_a_file_system_takes(point: dict[str, object]) -> None:
    name = folder_name(point)
    assert len(name.encode()) <= 255
    assert name not in ("", ".", "..")
    assert "/" not in name and "\0" not in name
    assert not name.startswith(("-", "."))
