"""ConfigManager: every documented key with its default, and every documented interface."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from compat.gpu_task_project import CONFIG, FOLDERS, INSTANCES
from gpu_task_scheduler.config_manager import ConfigManager


def _sample() -> dict[str, Any]:
    scope: dict[str, Any] = {}
    exec(CONFIG, scope)
    config: dict[str, Any] = scope["config"]
    return config


def _manager(test_config: Any = None, **scheduler_config: Any) -> ConfigManager:
    config: dict[str, Any] = {"scheduler_config": {"gpu": ["0"], **scheduler_config}}
    if test_config is not None:
        config["test_config"] = test_config
    return ConfigManager(config)


def _all(manager: ConfigManager) -> list[dict[str, Any]]:
    return [manager.get_next_config() for _ in range(manager.get_num_left_config())]


def test_the_sample_spans_the_instances_that_the_description_lists() -> None:
    manager = ConfigManager(_sample())
    assert manager.get_num_left_config() == 4
    handed_out = _all(manager)
    assert [one["config"] for one in handed_out] == INSTANCES
    assert [os.path.basename(one["work_dir"]) for one in handed_out] == FOLDERS
    assert manager.get_num_left_config() == 0
    assert manager.get_next_config() == {"config": None}


def test_every_documented_setting_has_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = _manager().get_all_scheduler_config()
    assert settings == {
        "gpu": ["0"],
        "result_root_folder": str(tmp_path / "results"),
        "force_rerun": False,
        "test_config_string_indicator": "-",
        "test_config_string_separator": ",",
        "test_config_string_inst_separator": "+",
        "temp_folder": str(tmp_path / "temp"),
        "log_file": "worker.log",
        "scheduler_log_file_path": "scheduler.log",
        "config_string_value_maxlen": 30,
        "ignored_keys_for_folder_name": [],
        "ignored_characters_for_folder_name": [" ", "[", "]"],
    }
    assert list(tmp_path.iterdir()) == []  # Looking at a configuration makes no folders.


def test_what_is_optional_may_be_left_out() -> None:
    manager = _manager()
    assert manager.get_all_global_config() == {}
    assert manager.get_all_test_config() == [{}]
    assert manager.get_next_config()["config"] == {}


def test_the_parts_can_be_asked_for() -> None:
    manager = ConfigManager(_sample())
    assert manager.get_all_global_config() == {"num_run": 5, "num_epoch": 200}
    assert manager.get_all_test_config() == [
        {k: v for k, v in one.items() if not k.startswith(("num_run", "num_epoch"))}
        for one in INSTANCES
    ]
    assert manager.get_all_test_config_in_string() == "+".join(FOLDERS)
    assert manager.get_num_gpu() == 3


def test_the_three_separators_can_be_chosen() -> None:
    manager = _manager(
        [{"b": [1, 2], "a": ["x"]}],
        test_config_string_indicator="=",
        test_config_string_separator=";",
        test_config_string_inst_separator="\n",
    )
    assert manager.get_all_test_config_in_string() == "a=x;b=1;\na=x;b=2;"


def test_long_values_are_cut_for_the_folder_but_not_for_the_task() -> None:
    long = "v" * 50
    (one,) = _all(_manager([{"k": [long]}]))
    assert one["config"] == {"k": long}
    assert one["work_dir"].endswith("/k-" + "v" * 30 + ",")
    (one,) = _all(_manager([{"k": [long]}], config_string_value_maxlen=1000))
    assert one["work_dir"].endswith(f"/k-{long},")


def test_ignored_keys_are_not_in_the_folder_but_in_the_instances_string() -> None:
    (one,) = _all(_manager([{"a": [1], "b": [2]}], ignored_keys_for_folder_name=["a"]))
    assert one["work_dir"].endswith("/b-2,")
    assert one["test_config_string_filtered"] == "b-2,"
    assert one["test_config_string"] == "a-1,b-2,"
    assert one["config"] == {"a": 1, "b": 2}


def test_characters_that_checkpoints_can_not_have_are_left_out() -> None:
    (one,) = _all(_manager([{"layers": [[64, 32]]}]))
    assert one["work_dir"].endswith("/layers-64,32,")
    (one,) = _all(_manager([{"layers": [[64]]}], ignored_characters_for_folder_name=[]))
    assert one["work_dir"].endswith("/layers-[64],")


def test_values_may_be_any_iterables_and_the_test_wins_over_the_global_configuration() -> None:
    config = {
        "scheduler_config": {"gpu": ["0"]},
        "global_config": {"run": -1, "deep": {"list": []}},
        "test_config": [{"run": range(2), "x": (v for v in "ab")}],
    }
    handed_out = _all(ConfigManager(config))
    assert [(one["config"]["run"], one["config"]["x"]) for one in handed_out] == [
        (0, "a"),
        (0, "b"),
        (1, "a"),
        (1, "b"),
    ]
    handed_out[0]["config"]["deep"]["list"].append(1)
    assert handed_out[1]["config"]["deep"] == {"list": []}


def test_gpus_are_ids_or_lists_of_ids_mixed() -> None:
    manager = _manager(gpu=["0", ["1", "2"], 3, (4, 5)])
    assert manager.get_all_scheduler_config()["gpu"] == ["0", "1,2", "3", "4,5"]
    assert manager.get_gpu_envs()[1] == {
        "name": "gpu1,2",
        "env": {"CUDA_VISIBLE_DEVICES": "1,2"},
    }


def test_the_users_own_dictionary_is_left_as_it_is() -> None:
    config = _sample()
    ConfigManager(config)
    assert config == _sample()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "scheduler_config"),
        ({"scheduler_config": {}}, "gpu"),
        ({"scheduler_config": {"gpu": []}}, "at least one gpu"),
        ({"scheduler_config": {"gpu": "0"}}, "list"),
        ({"scheduler_config": {"gpu": [0.5]}}, "string"),
        ({"scheduler_config": {"gpu": [[]]}}, "string"),
    ],
)
def test_a_configuration_without_gpus_is_a_value_error(config: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ConfigManager(config)
