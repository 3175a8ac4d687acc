"""Does the cluster have what Stoker needs? Each question is put to the cluster itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from stoker.core.reasons import gib, plural
from stoker.executors.slurm.calls import in_words
from stoker.executors.slurm.facts import (
    SINFO_FORMAT,
    ClusterFacts,
    facts_from_config,
    nodes_from_text,
)
from stoker.executors.slurm.options import ClusterConfig
from stoker.executors.slurm.squeue import NoAnswer, Unreadable, jobs_from_json, submitted_id
from stoker.machine import user_name

_COMMANDS = ("sbatch", "squeue", "scancel", "sinfo", "scontrol")
_ANSWERS_WITHIN_S = 30.0
_PROBE_RUNS_WITHIN_S = 30.0
_LOOK_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class Check:
    """One question and its answer; `ok` is None where it is only worth knowing."""

    name: str
    ok: bool | None
    text: str


def checks(env: Mapping[str, str], config: ClusterConfig, directory: str) -> Iterator[Check]:
    """All that is to be known, in the order in which it is needed."""
    missing = [name for name in _COMMANDS if shutil.which(name, path=env.get("PATH")) is None]
    if missing:
        text = f"not found on the daemon's PATH: {', '.join(missing)}"
        mend = "run `stoker daemon restart` in a shell that finds them"
        yield Check("commands", False, f"{text}; {mend}")
        return
    yield Check("commands", True, f"{', '.join(_COMMANDS)} are there")
    ran = _run(env, "scontrol", "show", "config")
    if isinstance(ran, str):
        yield Check("controller", False, f"it does not answer: {ran}")
        return
    nodes = _run(env, "sinfo", "--noheader", "-o", SINFO_FORMAT)
    facts = facts_from_config(
        ran.decode(errors="replace"),
        nodes_from_text(nodes.decode(errors="replace")) if isinstance(nodes, bytes) else (),
    )
    yield Check("controller", True, f"Slurm {facts.version or '(unknown version)'} answers")
    yield _states(env)
    yield from _resources(facts, config)
    yield _accounting(facts)
    yield _probe(env, config, directory)


def _run(env: Mapping[str, str], *words: str) -> bytes | str:
    """What a command prints, or why it failed."""
    try:
        done = subprocess.run(
            words, env=dict(env), cwd="/", capture_output=True, timeout=_ANSWERS_WITHIN_S
        )
    except subprocess.TimeoutExpired:
        return f"{words[0]} has not answered for {_ANSWERS_WITHIN_S:.0f} s"
    except OSError as error:
        return f"{words[0]}: {os.strerror(error.errno or 0)}"
    if done.returncode == 0:
        return done.stdout
    return in_words(done.stderr.decode(errors="replace")) or f"{words[0]} failed"


def _states(env: Mapping[str, str]) -> Check:
    ran = _run(env, "squeue", f"--user={user_name(os.getuid())}", "--states=all", "--json")
    try:
        if isinstance(ran, str):
            raise Unreadable(ran)
        jobs_from_json(ran, "")
    except (Unreadable, NoAnswer, ValueError) as error:
        return Check("states", None, f"squeue gives no JSON, so its text is read ({error})")
    return Check("states", True, "squeue gives JSON")


def _resources(facts: ClusterFacts, config: ClusterConfig) -> Iterator[Check]:
    if not facts.gpus:
        yield Check("gpus", False, "no node has gres/gpu: jobs that need GPUs will be refused")
    else:
        types = f" ({', '.join(facts.types)}: for --on)" if facts.types else ""
        count = sum(node.count for node in facts.nodes if node.gpus)
        yield Check("gpus", True, f"{plural(facts.gpus, 'GPU')} on {plural(count, 'node')}{types}")
    for kind, what in (("shard", "gres/shard"), ("mps", "gres/mps")):
        parts = facts.parts_of_a_gpu(kind)
        if parts is not None:
            yield Check("shares", True, f"{what}: a GPU has {parts} parts, for --gpus 0.5")
            break
    else:
        yield Check("shares", None, "neither gres/shard nor gres/mps: --gpus 0.5 will be refused")
    if config.gpu_memory:
        unknown = [name for name, _ in config.gpu_memory if name not in facts.features]
        sizes = ", ".join(f"{name} has {gib(mib)}" for name, mib in config.gpu_memory)
        if unknown:
            text = f"slurm.gpu-memory names features that no node has: {', '.join(unknown)}"
            yield Check("gpu memory", False, text)
        else:
            yield Check("gpu memory", True, f"--mem is a constraint: {sizes}")
    else:
        text = "--mem has no effect: say with slurm.gpu-memory which nodes have which GPUs"
        yield Check("gpu memory", None, text)


def _accounting(facts: ClusterFacts) -> Check:
    if facts.accounting:
        return Check("accounting", True, "slurmdbd: it is asked about jobs that left no trace")
    text = "no slurmdbd: how a job ended is known from its own files alone"
    return Check("accounting", None, text)


_PROBE = """#!/usr/bin/env perl
open my $file, '>', $ARGV[0] or die "$ARGV[0]: $!";
print {$file} $ENV{SLURMD_NODENAME} // '-', "\\n";
close $file;
"""


def _probe(env: Mapping[str, str], config: ClusterConfig, directory: str) -> Check:
    """Let a node write a file into the shared directory."""
    name = "shared directory"
    script, answer = f"{directory}/.probe.{os.getpid()}", f"{directory}/.probed.{os.getpid()}"
    try:
        with open(script, "w", encoding="ascii") as file:
            file.write(_PROBE)
    except OSError as error:
        return Check(name, False, f"{directory}: {os.strerror(error.errno or 0)}")
    try:
        options = [
            f"--{key}={value}"
            for key in ("partition", "account", "qos")
            if (value := getattr(config, key))
        ]
        ran = _run(
            env, "sbatch", "--parsable", "--job-name=stoker-check", "--time=1", "--ntasks=1",
            "--output=/dev/null", *options, *config.options, script, answer,
        )  # fmt: skip
        if isinstance(ran, str):
            return Check(name, False, f"a job that would try it was refused: {ran}")
        slurm_id = submitted_id(ran.decode(errors="replace"))
        return _probed(env, name, directory, answer, slurm_id)
    finally:
        for path in (script, answer):
            with suppress(FileNotFoundError):
                os.unlink(path)


def _probed(
    env: Mapping[str, str], name: str, directory: str, answer: str, slurm_id: int | None
) -> Check:
    deadline = time.monotonic() + _PROBE_RUNS_WITHIN_S
    state = ""
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            with open(answer, encoding="utf-8", errors="replace") as file:
                text = file.read()
            if text.endswith("\n"):
                return Check(name, True, f"{directory}: node {text.strip()} writes there")
        ran = _run(env, "squeue", "--noheader", f"--jobs={slurm_id}", "--states=all", "-o", "%T %r")
        state = ran.decode(errors="replace").strip() if isinstance(ran, bytes) else ""
        if state.startswith(("FAILED", "COMPLETED", "CANCELLED", "NODE_FAIL")):
            # A network file system may show it a little later.
            deadline = min(deadline, time.monotonic() + 3.0)
        time.sleep(_LOOK_AGAIN_S)
    if state.startswith("PENDING"):
        _run(env, "scancel", "--name=stoker-check", str(slurm_id))
        text = f"not known: the job that would try it still waits ({state.partition(' ')[2]})"
        return Check(name, None, text)
    text = f"{directory}: what a node writes there does not arrive ({state or 'no word of it'})"
    return Check(name, False, f"{text}; set slurm.dir to a directory that the nodes share")
