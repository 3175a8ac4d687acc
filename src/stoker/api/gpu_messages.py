"""The messages about GPUs, and what was learned of jobs on them: see `messages`."""
# ruff: noqa: RUF012 (msgspec gives each message its own copy of a default)

from stoker.api.field_types import JobId, Millis
from stoker.api.request import Request


class OfGpus(Request, kw_only=True):
    """The base of requests about some GPUs."""

    gpus: list[str]


class Gpus(Request, tag="gpus"):
    """Answer: `gpus`, and `why`: in words, why none are measured, or only old readings are had."""


class GpuHistory(Request, tag="gpu_history"):
    """The course of each GPU: `histories`, by id, each with lists of the same length.

    `at_ms`, `use_percent`, `ours_mib`, `others_mib`; null is what was not measured.
    """

    since_ms: Millis = 0


class JobHistory(Request, tag="job_history"):
    """The course of an attempt (default: the latest): `at_ms`, `mem_mib`, `use_percent`.

    `gpus` has the same for each GPU by its name, of an attempt that has several.
    """

    job_id: JobId
    attempt: JobId | None = None


class Profiles(Request, tag="profiles"):
    """What is known of kinds of jobs. Answer: `profiles`."""


class ProfilesForget(Request, tag="profiles_forget"):
    """Forget these kinds, or all. Answer: `kinds`."""

    kinds: list[str] = []
    all: bool = False


class GpuAdd(OfGpus, tag="gpu_add"):
    """Declare GPUs, e.g. "4" or "4:24G"."""


class GpuRemove(OfGpus, tag="gpu_remove"):
    """Take GPUs away; what runs on them ends by itself."""


class GpuDrain(OfGpus, tag="gpu_drain"):
    """Start nothing new on these."""


class GpuResume(OfGpus, tag="gpu_resume"):
    """Undo GpuDrain."""


class GpuLend(OfGpus, tag="gpu_lend"):
    """Where none are declared, these are there for this process: forget them after its last job.

    `over`: the process needs them no more.
    """

    pid: int
    over: bool = False
