"""What an attempt sees: its environment and its command line, as pure functions."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stoker.executors.attempt_dir import metrics_text
from stoker.executors.checkpoint_dir import checkpoint_text

if TYPE_CHECKING:  # The keeper wants the markers alone, and is there as long as the daemon is.
    from stoker.core.commands import Start, StartAttached
    from stoker.core.model import Launch

MARKER = "STOKER_ATTEMPT_ID"
MASKS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")  # the second is AMD's
FOR_CONTAINERS = "NVIDIA_VISIBLE_DEVICES"  # by which NVIDIA's container toolkit goes
_ALL_MASKS = frozenset((*MASKS, FOR_CONTAINERS))
# What an attempt is told of its job, if there is anything to tell.
OF_JOB = ("STOKER_NAME", "STOKER_GROUP", "STOKER_SWEEP", "STOKER_PARAMS")
# A process that has this is not ended because the one that started it has ended.
KEEP_CHILDREN = "STOKER_KEEP_CHILDREN"
METRICS = "STOKER_METRICS"  # the file for what an attempt reports of itself
SUBMIT_DIR = "STOKER_SUBMIT_DIR"  # where a job was queued that runs in a frozen tree
CHECKPOINT_DIR = "STOKER_CHECKPOINT_DIR"  # what its attempts leave to those that go on
RESUMES = "STOKER_RESUMES"  # how often it was put back
EncodedEnv = list[bytes]  # as in b"HOME=/home/ada"
_PLACES_KEPT = 256
ENCODING, ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
# What runs for MPS, and is no job, has this with the name of our instance. A job that uses MPS has
# it too, as 1: what is submitted from there is not to have what was its own.
MPS_MARKER = "STOKER_MPS"


def marker(instance: str, job_id: int, attempt: int) -> str:
    """The value of MARKER: by it a process is known to be of an attempt, wherever it went."""
    return f"{instance}:{job_id}.{attempt}"


def environment(
    launch: Launch, start: Start | StartAttached, instance: str, root: str
) -> dict[str, str]:
    """The environment of an attempt: the user's own at submission, and the GPUs it was given."""
    added = additions(launch, start, instance, root)
    own = inherited(launch.env, bool(launch.options.get("env_all")))
    if MASKS[0] not in added:
        own = {name: value for name, value in own.items() if name not in _ALL_MASKS}
    return {**own, **added}


def inherited(env: Mapping[str, str], all_of_it: bool) -> Mapping[str, str]:
    """The user's own environment at submission, without what describes another run."""
    from stoker.executors.inherited import of_another_run  # Not for the keeper: see above.

    foreign = () if all_of_it else of_another_run(env)
    return {n: value for n, value in env.items() if n not in foreign} if foreign else env


def additions(
    launch: Launch, start: Start | StartAttached, instance: str, root: str
) -> dict[str, str]:
    """What this attempt has in its environment over what its submission had.

    A job without GPUs sees none, so that it can't take by accident what it was not given.
    """
    return {
        **launch.extra_env,
        "PWD": launch.cwd,
        **_masks(launch, start),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "STOKER_GPUS": ",".join(start.labels or start.gpus),
        **({KEEP_CHILDREN: "1"} if launch.options.get("keep_children") else {}),
        **({SUBMIT_DIR: str(launch.options["freeze"])} if "freeze" in launch.options else {}),
        **own(launch, start, instance, root),
    }


def visible_gpus(launch: Launch) -> object:
    """How a job finds its GPUs: by index, by uuid, or all: it sees every GPU.

    The ids that --gpu-arg appends are ordinals, which are right only where no GPU is hidden.
    """
    return launch.options.get("visible") or ("all" if launch.gpu_arg else "index")


def _masks(launch: Launch, start: Start | StartAttached) -> dict[str, str]:
    """What hides other GPUs from an attempt.

    Programs that read the variable themselves (vLLM, the launcher of DeepSpeed, scripts with an
    option --gpu) expect numbers. UUIDs take their place where numbers may mean another GPU, and for
    clients of MPS, which would count the GPUs of their server.
    """
    visible = visible_gpus(launch)
    if visible == "all" and start.gpus and start.mps is None:
        return {}
    ids = ",".join(start.gpus)
    if start.vendor == "amd":
        return dict.fromkeys(MASKS, ids)
    by_uuid = visible == "uuid" or start.uuids_only or start.mps is not None
    return {
        MASKS[0]: ids if by_uuid or not start.labels else ",".join(start.labels),
        FOR_CONTAINERS: ids or "void",
    }


def own(launch: Launch, start: Start | StartAttached, instance: str, root: str) -> dict[str, str]:
    """What no other attempt has; `root` is where attempts have their files."""
    told = {
        "STOKER_JOB_ID": str(start.job_id),
        "STOKER_ATTEMPT": str(start.attempt),
        MARKER: marker(instance, start.job_id, start.attempt),
        METRICS: metrics_text(root, start.job_id, start.attempt),
        CHECKPOINT_DIR: checkpoint_text(root, start.job_id, launch.point),
        RESUMES: str(start.resumes or 0),
    }
    if launch.name is not None or start.group or launch.params:
        told |= of_job(launch, start.group)
    return told


def of_job(launch: Launch, group: str | None) -> dict[str, str]:
    """What a job is told of itself: see OF_JOB. The group of a point is its sweep."""
    told = {}
    if launch.name is not None:
        told["STOKER_NAME"] = launch.name
    if group:
        told["STOKER_GROUP"] = group
        if launch.point is not None:
            told["STOKER_SWEEP"] = group
    if launch.params:
        import json

        told["STOKER_PARAMS"] = json.dumps(launch.params)
    return told


class Encoder:
    """Encodes environments for the system; what many attempts have in common once."""

    def __init__(self, instance: str, root: str) -> None:
        self._instance = instance
        self._root = root
        self._submitted: Mapping[str, str] = {}
        self._placed: dict[tuple[object, ...], EncodedEnv] = {}  # by where and how they run

    def encoded(
        self, launch: Launch, start: Start | StartAttached, more: Mapping[str, str]
    ) -> EncodedEnv:
        """What `environment` says, and more."""
        if launch.extra_env or more:
            return encoded({**environment(launch, start, self._instance, self._root), **more})
        if self._submitted is not launch.env:
            self._submitted = launch.env
            self._placed.clear()
        # Those that start one after the other differ by their number and little else.
        its_own = own(launch, start, self._instance, self._root)
        # As text, since an option may be a list.
        options = (launch.gpu_arg, str(launch.options) if launch.options else "")
        place = (launch.cwd, options, start.gpus, start.labels, start.vendor, start.uuids_only)
        base = self._placed.get(place)
        if base is None:
            if len(self._placed) >= _PLACES_KEPT:
                self._placed.clear()
            shared = environment(launch, start, self._instance, self._root)
            for name in its_own:
                del shared[name]
            base = self._placed[place] = encoded(shared)
        return base + encoded(its_own)


def encoded(env: Mapping[str, str]) -> EncodedEnv:
    """Variables as the system has them."""
    return [f"{name}={value}".encode(ENCODING, ERRORS) for name, value in env.items()]


def command_line(launch: Launch, gpus: Sequence[str]) -> list[str]:
    """The words to run: the user's own, or the login shell with the user's string."""
    gpu_arg = launch.gpu_arg and bool(gpus)
    # The daemon can't do it for the job: who has become nicer can't go back.
    nicely = ["nice", "-n", str(launch.options["nice"])] if launch.options.get("nice") else []
    if launch.shell is None:
        extra = ["--gpu", *gpus] if gpu_arg else []
        return [*nicely, *launch.argv, *extra]
    text = launch.shell
    if gpu_arg:
        text = " ".join((text, "--gpu", *gpus))
    return [*nicely, login_shell(variable(launch, "SHELL") or ""), "-c", text]


def variable(launch: Launch, name: str) -> str | None:
    """The value that a variable of the user's own has for the job."""
    return launch.extra_env.get(name, launch.env.get(name))


def login_shell(said: str) -> str:
    """The shell of the user: as the environment says, else as the password database does."""
    if _is_program(said):
        return said
    try:
        listed = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        listed = ""  # As in a container that is run under any number.
    return listed if _is_program(listed) else "/bin/sh"


def _is_program(path: str) -> bool:
    return os.path.isabs(path) and os.access(path, os.X_OK) and not os.path.isdir(path)
