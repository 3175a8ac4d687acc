"""The self-test at work: jobs of its own, on free GPUs, in a home of its own.

Law: it uses only GPUs on which nothing runs, takes little of them, and says what it leaves out.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.cli.selftest import lines, probe
from stoker.cli.selftest.lines import FAILED, OK, SKIPPED, Line
from stoker.cli.temporary_home import Job, TemporaryHome
from stoker.errors import Failed, StokerError
from stoker.text.gpus import gib
from stoker.text.jobs import FINAL_STATES

Gpu = dict[str, Any]

TAKES_MIB = 256
_HOLDS_S = 2.0
_STAYS_S = 120.0  # until it is killed
_PATIENCE_S = 40.0
_NEEDS_MIB = 4096  # for two jobs, one beyond them, and the contexts of all
_MPS_CONTROL = "nvidia-cuda-mps-control"
# Little is measured, and for a short time; the queue is too short for the disk to matter.
_SETTINGS = {
    "settle": "1s", "poll": "200ms", "mem-margin": "128M", "disk-warn": "off", "disk-stop": "off",
}  # fmt: skip


class SelfTest(TemporaryHome):
    """Use it as a context."""

    def __init__(self) -> None:
        super().__init__("selftest")
        self._results = 0

    def lines(self) -> Iterator[Line]:
        """All checks, each as soon as it is known."""
        for name, value in _SETTINGS.items():
            self.quietly("config", "set", name, value)
        told = self.call("gpus")
        # One that fails before it was ever read has neither name nor vendor.
        gpus: list[Gpu] = [gpu for gpu in told["gpus"] if gpu["vendor"] or gpu["fault"]]
        if not gpus:
            why = told["why"] or "no driver shows any"
            yield Line("GPUs", FAILED, f"no GPU was found: {why}", "see: stoker doctor")
            return
        in_queue = _in_queue([gpu["uuid"] for gpu in gpus])
        free = []
        for gpu in gpus:
            why = lines.why_not_free(gpu, in_queue)
            memory = "unknown memory" if gpu["memory_mib"] is None else gib(gpu["memory_mib"])
            text = f"{gpu['name'] or 'unknown model'}, {memory}"
            faulty = why and gpu["fault"]
            result = FAILED if faulty else SKIPPED if why else OK
            yield Line(f"GPU {gpu['id']}", result, f"{text}{'; ' if why else ''}{why}")
            if not why:
                free.append(gpu)
        able: list[Gpu] = []
        yield from self._each_alone(free, able)
        if not able:
            if not free:
                yield Line("jobs", SKIPPED, "no GPU is free; run it again when one is")
            return
        yield from self._sharing(able[0])
        yield self._with_mps(able[0])
        yield self._links(able)

    # ------------------------------------------------------------------ the checks

    def _each_alone(self, free: list[Gpu], able: list[Gpu]) -> Iterator[Line]:
        """A job for each GPU, all at once; those on which a job can run are put into `able`."""
        jobs = [(gpu, *self._add([gpu], ["--gpus", "1"])) for gpu in free]
        ended = self._until_final([job_id for _, job_id, _ in jobs])
        for gpu, job_id, result in jobs:
            job, seen = ended.get(job_id), self._seen(result)
            if job is None:
                why = self._why(job_id)
                yield lines.not_started(f"GPU {gpu['id']}: own device", why)
                continue
            line = lines.own_device(gpu["id"], job, seen, gpu["uuid"])
            yield line
            if line.result == OK:
                able.append(gpu)
                yield lines.memory_read(gpu["id"], job, TAKES_MIB)

    def _sharing(self, gpu: Gpu) -> Iterator[Line]:
        """Two jobs on one GPU, one that wants too much beside them, and the end of both."""
        if (gpu["memory_mib"] or 0) < _NEEDS_MIB:
            for check in ("packing", "out of memory", "killed jobs"):
                need = f"GPU {gpu['id']} has less than {gib(_NEEDS_MIB)}"
                yield Line(check, SKIPPED, need)
            return
        before = self._gpu(gpu)
        auto = ["--mem", "auto", "--kind", "selftest"]
        scout, _ = self._add([gpu], auto)
        if scout not in self._until_final([scout]):
            yield lines.not_started("packing", self._why(scout))
            return
        both = [self._add([gpu], auto, seconds=_STAYS_S) for _ in range(2)]
        ids = [job_id for job_id, _ in both]

        def answered() -> bool:
            return all(self._seen(result) for _, result in both)

        self.within(_PATIENCE_S, answered, lambda: "two jobs on one GPU")
        seen = [self._seen(result) for _, result in both]
        yield lines.packed(self._jobs(ids), seen, self._why(ids[-1]))
        greedy, result = self._add([gpu], ["--mem", "1G"], beyond=True)
        ended = self._until_final([greedy])
        if greedy in ended:
            yield lines.out_of_memory(ended[greedy], self._seen(result))
        else:
            yield lines.not_started("out of memory", self._why(greedy))
        self._kill(ids)
        self._until_final(ids)

        def is_back() -> bool:
            line = lines.memory_back(before["used_mib"], self._gpu(gpu)["used_mib"], False)
            return line.result != FAILED

        self.within(_PATIENCE_S / 2, is_back, lambda: "their memory comes back")
        after = self._gpu(gpu)
        yield lines.memory_back(before["used_mib"], after["used_mib"], bool(after["foreign"]))

    def _with_mps(self, gpu: Gpu) -> Line:
        if shutil.which(_MPS_CONTROL) is None:
            return Line("MPS", SKIPPED, f"{_MPS_CONTROL} is not on PATH; only --mps needs it")
        pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps"
        if os.path.exists(os.path.join(pipe, "control")):
            return Line("MPS", SKIPPED, f"a server that is not Stoker's runs ({pipe})")
        job_id, result = self._add([gpu], ["--mps", "--mem", "1G"])
        ended = self._until_final([job_id])
        if job_id not in ended:
            return lines.not_started("MPS", self._why(job_id))
        return lines.mps(ended[job_id], self._seen(result))

    def _links(self, able: list[Gpu]) -> Line:
        if len(able) < 2:
            return Line("links", SKIPPED, "two free GPUs are needed")
        names = [gpu["id"] for gpu in able]
        if any(lines.plain(gpu["uuid"]) and gpu["uuid"].startswith("MIG-") for gpu in able):
            return Line("links", SKIPPED, "MIG instances have none")
        between = {
            (one["id"], other): words
            for one in able
            for other, words in one["links"].items()
            if other in names and names.index(one["id"]) < names.index(other)
        }
        job_id, result = self._add(able[:2], ["--gpus", "2"])
        ended = self._until_final([job_id])
        if job_id not in ended:
            return lines.not_started("links", self._why(job_id))
        uuids = [gpu["uuid"] for gpu in able[:2]]
        return lines.links(names, between, ended[job_id], self._seen(result), uuids)

    # ------------------------------------------------------------------ jobs

    def _add(
        self, gpus: list[Gpu], options: list[str], *, seconds: float = _HOLDS_S,
        beyond: bool = False,
    ) -> tuple[int, str]:  # fmt: skip
        """Queue a probe on these GPUs: its id, and where it writes what it sees."""
        self._results += 1
        result = os.path.join(self.work, f"result-{self._results}.json")
        program = [sys.executable, "-P", probe.__file__, result, str(TAKES_MIB), str(seconds)]
        on = ",".join(gpu["id"] for gpu in gpus)
        words = ["add", *options, "--on", on, "--", *program, *(["beyond"] if beyond else [])]
        return int(self.answer(*words)["ids"][0]), result

    def _seen(self, result: str) -> dict[str, Any]:
        """What a probe wrote; empty if it has not written yet."""
        try:
            with open(result, encoding="ascii") as file:
                found: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return {}
        return found

    def _jobs(self, ids: list[int]) -> list[Job]:
        return [job for job in self.jobs() if int(job["id"]) in ids]

    def _until_final(self, ids: list[int]) -> dict[int, Job]:
        """Those of the jobs that have ended in time."""
        ended: dict[int, Job] = {}

        def all_ended() -> bool:
            for job in self._jobs(ids):
                if job["state"] in FINAL_STATES:
                    ended[int(job["id"])] = job
            return len(ended) == len(ids)

        self.within(_PATIENCE_S, all_ended, lambda: f"{len(ids) - len(ended)} jobs run")
        return ended

    def _kill(self, ids: list[int]) -> None:
        """SIGKILL, as a machine that is out of memory sends it; the processes are ours."""
        for job in self._jobs(ids):
            if job["state"] == "running" and job["pid"]:
                with suppress(ProcessLookupError):  # It has just ended.
                    os.kill(job["pid"], signal.SIGKILL)
            elif job["state"] not in FINAL_STATES:
                self.quietly("cancel", str(job["id"]))

    def _why(self, job_id: int) -> str:
        told = self.call("why", select={"ids": [str(job_id)]})["jobs"]
        return str(told[0]["text"])

    def _gpu(self, gpu: Gpu) -> Gpu:
        found: list[Gpu] = self.call("gpus")["gpus"]
        return next(one for one in found if one["uuid"] == gpu["uuid"])


def _in_queue(driver_shows: list[str]) -> dict[str, str]:
    """What the user's own queue does with these GPUs; nothing if there is no queue to ask."""
    home = Home.from_environment()
    if not os.path.exists(home.database):
        return {}
    try:
        with Client(home) as client:
            gpus = client.call("gpus")["gpus"]
    except StokerError as error:
        raise Failed(
            f"your queue can't be asked which GPUs it uses: {error.message}",
            "mend it first (stoker doctor), or set STOKER_HOME to another directory",
        ) from None
    measured = [gpu for gpu in gpus if gpu["uuid"]]
    return lines.in_queue(measured, driver_shows) if measured else {}
