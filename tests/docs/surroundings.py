"""What the pages suppose to be there, and the few commands that are not simply run.

Law: every entry is used; `test_pages.py` says which is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# What readers have in their directory: programs that do little, and files that name them.
TRAIN = "import sys\nprint('training', *sys.argv[1:])\n"
LONG = "import sys, time\nprint('training', *sys.argv[1:], flush=True)\ntime.sleep({when})\n"
PROGRAMS = ("train", "prepare", "report", "flaky", "old", "big", "maybe", "evaluate", "test1")
FILES = {
    **{f"{name}.py": TRAIN for name in PROGRAMS},
    "train.sh": "#!/bin/sh\nexec python train.py\n",
    "runs/eval.py": TRAIN,
    "commands.txt": "python train.py --lr 0.1\npython train.py --lr 0.2\n",
    "gpu_commands.txt": "python train.py --lr 0.1\n",
    "gpu.queue": "",
    "jobs.csv": "command,gpus\npython train.py,1\n",
    "runs.csv": "lr,dir\n0.1,a b\n0.2,c\n",
}


@dataclass(frozen=True)
class Surroundings:
    """Where the reader of a page is."""

    files: dict[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()  # commands
    clone: bool = False  # in a clone that was set up, as the page says
    cluster: bool = False  # on a login node of a cluster
    torch: bool = False  # in an environment with PyTorch
    # The exit codes that a command may have. A page whose examples do not build on each other may
    # ask for what is not there; what no page may show is a command that is not understood.
    codes: frozenset[int] = frozenset({0})


SEEN = ("CONDA_DEFAULT_ENV", "LOADEDMODULES", "CUDA_VISIBLE_DEVICES")
DECLARE = "stoker config set gpus 0-3:24G"

SURROUNDINGS = {
    "README.md": Surroundings(
        clone=True,
        files={
            "train.py": LONG.format(when="60 * ('0.2' in sys.argv)"),  # until it is cancelled
            "commands.txt": "python train.py\n",
        },
    ),
    "CONTRIBUTING.md": Surroundings(clone=True),
    "tests/README.md": Surroundings(clone=True),
    "docs/performance.md": Surroundings(clone=True),
    "docs/gpus.md": Surroundings(clone=True),
    "docs/quickstart.md": Surroundings(files={"prepare.py": LONG.format(when="60")}),
    "docs/howto.md": Surroundings(),
    "docs/my-setup.md": Surroundings(
        files={
            "train.py": f"import os, sys\nprint(sys.prefix, *(f'{{n}}={{os.environ.get(n)}}' "
            f"for n in {SEEN}))\n",
            "../.profile": 'module() { export LOADEDMODULES="$2"; }\n',
        },
        before=(
            DECLARE,
            "python -m venv --without-pip venv && mkdir project",
            "ln -s ../venv ../train.py project",
            'printf "PATH=%q\\n" "$PATH" >> ~/.profile && . ~/.profile',
            'eval "$(conda shell.bash hook)"',
        ),
    ),
    "docs/checkpoint-recipes.md": Surroundings(
        torch=True,
        before=("stoker config set gpus 0-7",),
    ),
    "docs/sweeps.md": Surroundings(before=(DECLARE,)),
    "docs/find-the-best-point.md": Surroundings(before=(DECLARE,)),
    "docs/library.md": Surroundings(before=(DECLARE,)),
    "docs/top.md": Surroundings(before=(DECLARE,)),
    "docs/web.md": Surroundings(before=(DECLARE,)),
    "docs/cluster.md": Surroundings(cluster=True, before=("export SCRATCH=~/scratch",)),
    "docs/coming-from-gpu-task-scheduler.md": Surroundings(
        files={
            "config.py": "config = {'scheduler_config': {'gpu': ['0', '1']}, "
            "'global_config': {}, 'test_config': [{'lr': [0.1, 0.2]}]}\n",
            "my_gpu_task.py": "from gpu_task_scheduler.gpu_task import GPUTask\n"
            "class MyGPUTask(GPUTask):\n    def main(self):\n        print(self._config['lr'])\n",
        }
    ),
    "docs/coming-from-gpupeasy.md": Surroundings(files={"blah.py": TRAIN}),
    "docs/coming-from-priority-scheduler.md": Surroundings(
        before=(DECLARE,), files={"mnist/train.py": TRAIN, "cifar/train.py": TRAIN}
    ),
    "docs/coming-from-scheduler-py.md": Surroundings(),
    "docs/coming-from-simple-gpu-scheduler.md": Surroundings(),
    "docs/coming-from-wandb-sweeps.md": Surroundings(before=(DECLARE,)),
    "docs/coming-from-optuna.md": Surroundings(before=(DECLARE,)),
    "docs/coming-from-hydra.md": Surroundings(before=(DECLARE,)),
    "docs/reference.md": Surroundings(
        files={
            "sweep.yaml": "program: train.py\nname: lr-search\nparameters: {lr: {values: [1]}}\n",
            "commands.csv": "Directory,Executable,Filename,Epochs,Priority\n",
            "trace.csv": "submit,run\n0,90\n",
            "jobs.yaml": "- {name: first, command: python train.py}\n",
        },
        before=(
            DECLARE,
            *(f"stoker add --group sweep --name run-{i} -- python train.py" for i in range(9)),
            "chmod +x train.sh; mkdir -p ~/.config/fish/completions",
        ),
        codes=frozenset({0, 1, 3}),
    ),
}


@dataclass(frozen=True)
class Special:
    """A command that is not simply run, how often the pages have it, and why."""

    pattern: str
    count: int
    why: str


NOT_RUN = (
    Special(r"uv tool install ", 2, "it needs a package index; install/test_packages.py runs it"),
    Special(r"docker ", 2, "it needs an image; e2e/test_container.py is such a container"),
    Special(r"sudo ", 1, "it changes the machine; test_local_state.py has such a directory"),
    Special(r"stoker run --mem 8G -- ipython", 1, "it needs a person"),
    Special(r"stoker adopt 4711", 4, "it needs such a process; e2e/test_adopt.py has some"),
)
ENDLESS = (
    Special(r"tail -f .*\| stoker feed", 2, "the queue may grow at any time"),
    Special(r"stoker gpus --watch", 1, "it is live"),
)
ON_A_TERMINAL = (
    Special(r"stoker top\b(?! --once)", 3, "it is live, and draws on a terminal"),
    Special(r"watch ", 1, "it is live, and draws on a terminal"),
)
