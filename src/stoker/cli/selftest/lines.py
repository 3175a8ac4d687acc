"""What the self-test found, and what it means: pure functions of what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stoker.text.gpus import gib

OK, FAILED, SKIPPED = "ok", "failed", "skipped"

_CONTEXT_AT_MOST_MIB = 4096  # what a program has on a GPU beside its own allocations
_LEFT_OVER_MIB = 64
_UNNAMED_MIB = 1024


class Line(NamedTuple):
    """One check."""

    check: str
    result: str
    text: str
    todo: str = ""


def why_not_free(gpu: Mapping[str, Any], in_queue: Mapping[str, str]) -> str:
    """Why a GPU is left alone; empty if the self-test may use it."""
    if gpu["fault"]:
        return str(gpu["fault"])
    if gpu["stale"]:
        return "the driver does not answer"
    if words := in_queue.get(gpu["uuid"]):
        return words
    if gpu["vendor"] != "nvidia":
        return "the self-test takes memory through CUDA, and this is no NVIDIA GPU"
    others = gpu["foreign"]
    if gpu["state"] != "free" or others:
        who = ", ".join(f"process {one['pid']}" for one in others) or "another program"
        return f"in use by {who}"
    if (gpu["used_mib"] or 0) >= _UNNAMED_MIB:
        return f"{gib(gpu['used_mib'])} are used by programs that the driver does not name"
    return ""


def in_queue(gpus: Sequence[Mapping[str, Any]], driver_shows: Sequence[str]) -> dict[str, str]:
    """Which GPUs are not free for the user's own queue, by UUID, and why."""
    found = {
        uuid: "taken out of your queue (stoker gpus remove)"
        for uuid in driver_shows
        if uuid not in {gpu["uuid"] for gpu in gpus}
    }
    for gpu in gpus:
        jobs = ", ".join(str(job) for job in gpu["jobs"])
        if jobs:
            found[gpu["uuid"]] = f"in use by your queue (job {jobs})"
        elif gpu["state"] in ("drained", "removing"):
            found[gpu["uuid"]] = "paused in your queue"
    return found


def own_device(name: str, job: Mapping[str, Any], seen: Mapping[str, Any], uuid: str) -> Line:
    """Whether a job saw just the GPU that it was given."""
    check = f"GPU {name}: own device"
    if trouble := _trouble(job, seen):
        return Line(check, FAILED, *trouble)
    if seen["uuids"] == [plain(uuid)]:
        return Line(check, OK, "a job sees this GPU, and no other")
    return Line(
        check,
        FAILED,
        f"a job with this GPU saw {_count(seen['uuids'])}: {', '.join(seen['uuids']) or 'none'}; "
        f"expected {plain(uuid)}",
        "try: stoker config set visible uuid",
    )


def memory_read(name: str, job: Mapping[str, Any], took_mib: int) -> Line:
    """Whether the memory that a job took was read as that job's."""
    check = f"GPU {name}: memory of a job"
    peak = job["peak_mib"]
    if peak is None or peak == 0:
        return Line(
            check,
            FAILED,
            f"a job took {took_mib} MiB, and the driver tells no memory of its process",
            "in a container, start it with --pid=host; until then use --mem 10G, and not auto",
        )
    text = f"a job took {took_mib} MiB and the CUDA context; {peak} MiB were read as its own"
    if took_mib <= peak <= took_mib + _CONTEXT_AT_MOST_MIB:
        return Line(check, OK, text)
    return Line(check, FAILED, text, "please report it: stoker doctor --report FILE")


def out_of_memory(job: Mapping[str, Any], seen: Mapping[str, Any]) -> Line:
    """Whether an allocation beyond the GPU's memory was recognised, and its job repeated."""
    check = "out of memory"
    if "error" in seen:
        return Line(check, FAILED, *_refused(seen["error"]))
    refused = seen.get("refused")
    if refused != 2:
        said = "took it" if refused is None else f"answered error {refused}"
        return Line(
            check, FAILED, f"a job asked for more memory than the GPU has, and the driver {said}"
        )
    if job["attempt"] == 1:
        return Line(check, FAILED, f"a job ran out of memory, and is {job['state']} after one run")
    if job["state"] != "succeeded":
        return Line(check, FAILED, f"it was told and repeated, and the job is {job['state']}")
    return Line(check, OK, "an allocation beyond the GPU's memory is told, and the job is repeated")


def packed(jobs: Sequence[Mapping[str, Any]], seen: Sequence[Mapping[str, Any]], why: str) -> Line:
    """Whether two jobs of a kind that was measured run on one GPU."""
    check = "packing"
    for one in seen:
        if "error" in one:
            return Line(check, FAILED, *_refused(one["error"]))
    if all(seen) and all(job["state"] == "running" for job in jobs):
        mib = jobs[0]["reserved_mib"]
        return Line(check, OK, f"two jobs share a GPU; {mib} MiB reserved each, by measured memory")
    return Line(check, FAILED, f"the second of two jobs does not start: {why}")


def memory_back(before_mib: int | None, after_mib: int | None, others: bool) -> Line:
    """Whether the memory of killed jobs is free again."""
    check = "killed jobs"
    if before_mib is None or after_mib is None:
        return Line(check, SKIPPED, "the driver does not tell how much memory is used")
    if after_mib <= before_mib + _LEFT_OVER_MIB:
        return Line(check, OK, "two jobs were killed, and their memory came back")
    if others:
        return Line(check, SKIPPED, "another program came onto the GPU meanwhile")
    return Line(
        check,
        FAILED,
        f"{after_mib - before_mib} MiB are still used after two jobs were killed",
        "nvidia-smi shows what has them",
    )


def mps(job: Mapping[str, Any], seen: Mapping[str, Any]) -> Line:
    """Whether a job ran as a client of MPS."""
    if trouble := _trouble(job, seen):
        return Line("MPS", FAILED, *trouble)
    return Line("MPS", OK, "a job ran with --mps")


def links(
    names: Sequence[str], between: Mapping[tuple[str, str], str], job: Mapping[str, Any],
    seen: Mapping[str, Any], uuids: Sequence[str],
) -> Line:  # fmt: skip
    """Whether a job with two GPUs saw both, and how all are connected."""
    check = "links"
    if trouble := _trouble(job, seen):
        return Line(check, FAILED, *trouble)
    if sorted(seen["uuids"]) != sorted(plain(uuid) for uuid in uuids):
        return Line(
            check, FAILED, f"a job with GPUs {' and '.join(names[:2])} saw {_count(seen['uuids'])}"
        )
    if not between:
        text = "a job sees both of its GPUs; the driver does not tell how they are connected"
        return Line(check, OK, text)
    ways: dict[str, list[str]] = {}
    for (one, other), words in between.items():
        ways.setdefault(words, []).append(f"{one}-{other}")
    text = "; ".join(f"{', '.join(pairs)}: {words}" for words, pairs in ways.items())
    return Line(check, OK, f"a job sees both of its GPUs; {text}")


def not_started(check: str, why: str) -> Line:
    """A job of the self-test did not even start."""
    return Line(check, FAILED, f"its job has not ended: {why}")


def plain(uuid: str) -> str:
    """The 32 digits of a UUID, without what stands before them."""
    return uuid.partition("-")[2].replace("-", "").lower()


def _trouble(job: Mapping[str, Any], seen: Mapping[str, Any]) -> tuple[str, str] | None:
    """What kept a job from doing what it should, and what to do."""
    if "error" in seen:
        return _refused(seen["error"])
    if job["state"] != "succeeded":
        code = f" with exit code {job['exit_code']}" if job["exit_code"] is not None else ""
        reason = f": {job['reason']}" if job.get("reason") else ""
        return f"a job has {job['state']}{code}{reason}", ""
    return ("a job wrote no result", "") if "uuids" not in seen else None


def _refused(error: str) -> tuple[str, str]:
    """What the driver answered a job, and what to do."""
    todo = ""
    if "libcuda.so" in error:
        todo = "install the driver's CUDA library; in a container, let it in (--gpus all)"
    elif "DEVICE_UNAVAILABLE" in error:
        todo = "if the compute mode is EXCLUSIVE_PROCESS, only --mps shares: nvidia-smi -c DEFAULT"
    return f"a job could not use its GPU: {error}", todo


def _count(uuids: Sequence[str]) -> str:
    return f"{len(uuids)} GPU{'' if len(uuids) == 1 else 's'}"
