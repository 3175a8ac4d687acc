"""The ways in which PacGAN, InfoGAN-CR and DoppelGANger use GPUTaskScheduler.

Their networks are replaced by a few lines each; how their files, configurations and tasks hang
together with the scheduler is theirs.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path

from library_home import output_of, run_python
from stoker_home import StokerHome


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_pacgan_writes_files_in_required_env_and_wraps_a_module_that_imports_at_its_top(
    home: StokerHome,
) -> None:
    _write(
        home.work,
        {
            "config.py": """
config = {
    "scheduler_config": {"gpu": ["0", "1"], "force_rerun": False},
    "global_config": {},
    "test_config": [{"run": range(2), "packing_num": [1, 2]}],
}
""",
            "framework.py": "import os\nOPENED_WITH = os.environ['CUDA_VISIBLE_DEVICES']\n",
            "wrapper.py": """
import os, random
import framework

class Wrapper:
    def __init__(self, _work_dir, _config):
        self._work_dir = _work_dir
        self._config = _config
    def main(self):
        os.makedirs(os.path.join(self._work_dir, "samples"))
        with open(os.path.join(self._work_dir, "samples", "gpu.txt"), "w") as file:
            file.write(framework.OPENED_WITH)
        print("packing", self._config["packing_num"], "rc", os.environ["BLOCKS_CONFIG"])
""",
            "pacgan_task.py": """
from gpu_task_scheduler.gpu_task import GPUTask
import os, random

class PacGANTask(GPUTask):
    def required_env(self):
        rc = os.path.join(self._work_dir, ".blocksrc")
        with open(rc, "w") as file:
            file.write("default_seed: {}\\n".format(random.randint(1, 100000)))
        return {"BLOCKS_CONFIG": rc}
    def main(self):
        from wrapper import Wrapper
        Wrapper(self._work_dir, self._config).main()
""",
            "main.py": """
from pacgan_task import PacGANTask

if __name__ == "__main__":
    from config import config
    from gpu_task_scheduler.gpu_task_scheduler import GPUTaskScheduler

    scheduler = GPUTaskScheduler(config=config, gpu_task_class=PacGANTask)
    scheduler.start()
""",
        },
    )
    output_of(run_python(home, "main.py"))
    folders = sorted(path.name for path in (home.work / "results").iterdir())
    assert folders == [f"packing_num-{n},run-{r}," for n in (1, 2) for r in (0, 1)]
    for folder in (home.work / "results").iterdir():
        assert (folder / "samples/gpu.txt").read_text() in ("0", "1")
        assert (folder / ".blocksrc").read_text().startswith("default_seed: ")
        assert f"rc {folder}/.blocksrc\n" in (folder / "worker.log").read_text()


def test_infogan_cr_runs_stages_over_the_same_folders_and_reads_them_with_a_config_manager(
    home: StokerHome,
) -> None:
    config = """
config = {
    "scheduler_config": {
        "gpu": ["0"],
        "temp_folder": "temp",
        "scheduler_log_file_path": "scheduler_mc.log",
        "log_file": "worker_mc.log",
        "force_rerun": True
    },
    "global_config": {"epoch": 28},
    "test_config": [{"run": range(3), "info_coe_de": [0.05], "gap_start": [0.0]}],
}
"""
    generate = """
from gpu_task_scheduler.gpu_task import GPUTask

class GANTask(GPUTask):
    def main(self):
        import os, pickle
        with open(os.path.join(self._work_dir, "metric_data.pkl"), "wb") as file:
            pickle.dump(self._config["run"], file)
"""
    cross = """
from gpu_task_scheduler.gpu_task import GPUTask

class GANTask(GPUTask):
    def main(self):
        import os, pickle
        from gpu_task_scheduler.config_manager import ConfigManager
        from config_mc import config

        results, configs = [], []
        sub_config_manager = ConfigManager(config)
        while sub_config_manager.get_num_left_config() > 0:
            sub_config = sub_config_manager.get_next_config()
            with open(os.path.join(sub_config["work_dir"], "metric_data.pkl"), "rb") as file:
                results.append(pickle.load(file))
            configs.append(sub_config)
        with open(os.path.join(self._work_dir, "cross_evaluation.pkl"), "wb") as file:
            pickle.dump({"results": results, "configs": configs}, file, protocol=2)
"""
    main = """
if __name__ == "__main__":
    from {task} import GANTask
    from config_mc import config
    from gpu_task_scheduler.gpu_task_scheduler import GPUTaskScheduler

    scheduler = GPUTaskScheduler(config=config, gpu_task_class=GANTask)
    scheduler.start()
"""
    _write(
        home.work,
        {
            "config_mc.py": config,
            "task_generate.py": generate,
            "task_cross.py": cross,
            "main_generate.py": main.format(task="task_generate"),
            "main_cross.py": main.format(task="task_cross"),
        },
    )
    output_of(run_python(home, "main_generate.py"))
    output_of(run_python(home, "main_cross.py"))
    folder = home.work / "results" / "gap_start-0.0,info_coe_de-0.05,run-1,"
    found = pickle.loads((folder / "cross_evaluation.pkl").read_bytes())
    assert found["results"] == [0, 1, 2]
    assert [one["config"]["run"] for one in found["configs"]] == [0, 1, 2]
    assert found["configs"][1]["work_dir"] == str(folder)
    assert (home.work / "scheduler_mc.log").read_text().count("finishes task") == 6
    assert (home.work / "temp").is_dir() and (folder / "worker_mc.log").exists()


def test_doppelganger_trains_and_then_generates_from_a_neighbouring_directory(
    home: StokerHome,
) -> None:
    config = """
import os

config = {
    "scheduler_config": {
        "gpu": ["0"],
        "config_string_value_maxlen": 1000,
        "result_root_folder": os.path.join("..", "results"),
        %s
    },
    "global_config": {"batch_size": 100, "noise": True},
    "test_config": [
        {"dataset": ["web"], "epoch": [400], "run": [0], "sample_len": [1, 5]},
        {"dataset": ["FCC_MBA"], "epoch": [17000], "run": [0], "sample_len": [4]},
    ],
}
"""
    again = """"scheduler_log_file_path": "scheduler_generate_data.log",
        "log_file": "worker_generate_data.log",
        "force_rerun": True"""
    task = """
from gpu_task_scheduler.gpu_task import GPUTask

class %s(GPUTask):
    def main(self):
        import sys
        sys.path.append("..")
        import os
        from gan.network import %s
        %s(os.path.join("..", "data", self._config["dataset"]), self._work_dir, self._config)
"""
    main = """
if __name__ == "__main__":
    from %s import %s
    from %s import config
    from gpu_task_scheduler.gpu_task_scheduler import GPUTaskScheduler

    scheduler = GPUTaskScheduler(config=config, gpu_task_class=%s)
    scheduler.start()
"""
    network = """
import json, os

def train(data, work_dir, config):
    checkpoint = os.path.join(work_dir, "checkpoint")
    if not os.path.exists(checkpoint):
        os.makedirs(checkpoint)
    with open(os.path.join(data, "size.txt")) as file:
        model = {"size": int(file.read()), "len": config["sample_len"]}
    with open(os.path.join(checkpoint, "model.json"), "w") as file:
        json.dump(model, file)

def generate(data, work_dir, config):
    with open(os.path.join(work_dir, "checkpoint", "model.json")) as file:
        model = json.load(file)
    with open(os.path.join(work_dir, "samples.json"), "w") as file:
        json.dump([model["size"]] * model["len"], file)
    print("generated", model["len"])
"""
    _write(
        home.work,
        {
            "gan/__init__.py": "",
            "gan/network.py": network,
            "data/web/size.txt": "3",
            "data/FCC_MBA/size.txt": "7",
            "example_training/config.py": config % "",
            "example_training/gan_task.py": task % ("GANTask", "train", "train"),
            "example_training/main.py": main % ("gan_task", "GANTask", "config", "GANTask"),
            "example_generating/config_generate.py": config % again,
            "example_generating/generate_task.py": task % ("GenTask", "generate", "generate"),
            "example_generating/main.py": main
            % ("generate_task", "GenTask", "config_generate", "GenTask"),
        },
    )
    for directory in ("example_training", "example_generating"):
        inside = StokerHome(home.root)
        inside.work = home.work / directory
        output_of(run_python(inside, "main.py"))
    # The name that DoppelGANger's own configuration for retraining spells out, comma at the end.
    folder = home.work / "results" / "dataset-web,epoch-400,run-0,sample_len-5,"
    assert json.loads((folder / "samples.json").read_text()) == [3] * 5
    assert (folder / "worker_generate_data.log").read_text() == "generated 5\n"
    assert (folder / "worker.log").exists()
    log = home.work / "example_generating" / "scheduler_generate_data.log"
    assert log.read_text().count("gpu0 finishes task dataset-") == 3
