"""Stoker's reading of a configuration: defaults, test instances, names of result folders."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

_DEFAULTS: dict[str, Any] = {
    "result_root_folder": "results/",
    "force_rerun": False,
    "test_config_string_indicator": "-",
    "test_config_string_separator": ",",
    "test_config_string_inst_separator": "+",
    "temp_folder": "temp/",
    "log_file": "worker.log",
    "scheduler_log_file_path": "scheduler.log",
    "config_string_value_maxlen": 30,
    "ignored_keys_for_folder_name": [],
    "ignored_characters_for_folder_name": [" ", "[", "]"],
}
_FOLDERS = ("result_root_folder", "temp_folder")


class ConfigManager:
    """Reads a configuration, and hands out its test instances one after the other."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        if "scheduler_config" not in config:
            raise ValueError("could not find scheduler_config in config")
        self._config = config
        self._scheduler_config = _with_defaults(config["scheduler_config"])
        self._global_config: dict[str, Any] = config.get("global_config", {})
        self._test_config: list[dict[str, Any]] = [
            dict(zip(space, values, strict=True))
            for space in config.get("test_config", [{}])
            for values in itertools.product(*space.values())
        ]
        self._counter = 0

    def get_all_scheduler_config(self) -> dict[str, Any]:
        """The settings of the scheduler, defaults included."""
        return self._scheduler_config

    def get_all_global_config(self) -> dict[str, Any]:
        """The parameters that all test instances share."""
        return self._global_config

    def get_all_test_config(self) -> list[dict[str, Any]]:
        """The parameters of each test instance."""
        return self._test_config

    def get_all_test_config_in_string(self) -> str:
        """The names of all result folders, in one string."""
        separator: str = self._scheduler_config["test_config_string_inst_separator"]
        return separator.join(self._name(instance, True) for instance in self._test_config)

    def get_next_config(self, create_dir: bool = False) -> dict[str, Any]:
        """The next test instance: `config`, `work_dir` and its names; `config` is None at the end.

        `create_dir` has no effect, as in the original: workers create the folders.

        `test_config_string` has all keys; `test_config_string_filtered`, which is the name of the
        result folder, lacks those that are ignored for it.
        """
        if not self.get_num_left_config():
            return {"config": None}
        instance = self._test_config[self._counter]
        self._counter += 1
        folder = self._name(instance, True)
        return {
            "config": {**copy.deepcopy(self._global_config), **instance},
            "test_config_string": self._name(instance, False),
            "test_config_string_filtered": folder,
            "work_dir": os.path.join(self._scheduler_config["result_root_folder"], folder),
        }

    def get_num_left_config(self) -> int:
        """How many test instances have not been handed out yet."""
        return len(self._test_config) - self._counter

    def get_num_gpu(self) -> int:
        """How many test instances can run at a time."""
        return len(self._scheduler_config["gpu"])

    def get_gpu_envs(self) -> list[dict[str, Any]]:
        """For each entry of `gpu` its name, and the environment variable that shows it."""
        return [
            {"name": f"gpu{ids}", "env": {"CUDA_VISIBLE_DEVICES": ids}}
            for ids in self._scheduler_config["gpu"]
        ]

    def _name(self, instance: Mapping[str, Any], for_folder: bool) -> str:
        """Keys in alphabetical order; a separator follows every value, the last one too."""
        settings = self._scheduler_config
        ignored = settings["ignored_keys_for_folder_name"] if for_folder else ()
        longest: int = settings["config_string_value_maxlen"]
        name = "".join(
            f"{key}{settings['test_config_string_indicator']}{str(instance[key])[:longest]}"
            f"{settings['test_config_string_separator']}"
            for key in sorted(instance)
            if key not in ignored
        )
        for letter in settings["ignored_characters_for_folder_name"]:
            name = name.replace(letter, "")
        return name


def _with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    settings = copy.deepcopy(_DEFAULTS)
    for folder in _FOLDERS:
        # The defaults are meant where the scheduler was made, wherever the process goes later.
        settings[folder] = os.path.abspath(settings[folder])
    settings.update(given)
    if "gpu" not in settings:
        raise ValueError('could not find gpu in scheduler_config, e.g. "gpu": ["0"]')
    gpus = settings["gpu"]
    if isinstance(gpus, str) or not isinstance(gpus, Collection) or not len(gpus):
        raise ValueError('please specify a list of at least one gpu, e.g. "gpu": ["0"]')
    settings["gpu"] = [_gpu_entry(entry) for entry in gpus]
    return settings


def _gpu_entry(entry: Any) -> str:
    """An entry of `gpu` as CUDA_VISIBLE_DEVICES has it: "0", or "0,1" for a list."""
    parts: Iterable[Any] = entry if isinstance(entry, list | tuple) else [entry]
    ids = list(parts)
    if not ids or not all(isinstance(one, str | int) for one in ids):
        raise ValueError('a gpu can only be a string or a list of strings, e.g. "gpu": ["0"]')
    return ",".join(str(one) for one in ids)
