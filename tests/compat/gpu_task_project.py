"""A user's project for GPUTaskScheduler: the files of its description, as written there."""

from __future__ import annotations

from pathlib import Path

CONFIG = """
config = {
    "scheduler_config": {
        "gpu": ["0", "1", "2"]
    },

    "global_config": {
        "num_run": 5,
        "num_epoch": 200,
    },

    "test_config": [
        {
            "method": ["GAN", "ALI"],
            "num_packing": [1],
            "num_zmode": [1]
        }, 
        {
            "method": ["WGAN"],
            "num_packing": [3],
            "num_zmode": [1, 2]
        }
    ]
}
"""  # noqa: W291

INSTANCES = [
    {"num_run": 5, "num_epoch": 200, "method": "GAN", "num_packing": 1, "num_zmode": 1},
    {"num_run": 5, "num_epoch": 200, "method": "ALI", "num_packing": 1, "num_zmode": 1},
    {"num_run": 5, "num_epoch": 200, "method": "WGAN", "num_packing": 3, "num_zmode": 1},
    {"num_run": 5, "num_epoch": 200, "method": "WGAN", "num_packing": 3, "num_zmode": 2},
]

FOLDERS = [
    "method-GAN,num_packing-1,num_zmode-1,",
    "method-ALI,num_packing-1,num_zmode-1,",
    "method-WGAN,num_packing-3,num_zmode-1,",
    "method-WGAN,num_packing-3,num_zmode-2,",
]

RUN = """
from config import config
from my_gpu_task import MyGPUTask
from gpu_task_scheduler.gpu_task_scheduler import GPUTaskScheduler
scheduler = GPUTaskScheduler(config = config, gpu_task_class = MyGPUTask)
scheduler.start()
"""

# The stand-in for training: it writes down what it saw, and when it had its GPU.
MY_GPU_TASK = """
import json
import os
import time

from gpu_task_scheduler.gpu_task import GPUTask


class MyGPUTask(GPUTask):
    def main(self):
        begin = time.monotonic()
        print("training", self._config)
        seen = {
            "config": self._config,
            "gpu": os.environ["CUDA_VISIBLE_DEVICES"],
            "agg": os.environ.get("MPLBACKEND"),
            "begin": begin,
            "end": time.monotonic(),
        }
        with open(os.path.join(self._work_dir, "seen.json"), "w") as file:
            json.dump(seen, file)
"""


def write_project(directory: Path, **files: str) -> None:
    """The description's project, with other files in the place of some."""
    usual = {"config": CONFIG, "my_gpu_task": MY_GPU_TASK, "main": RUN}
    for name, text in (usual | files).items():
        (directory / f"{name}.py").write_text(text, encoding="utf-8")
