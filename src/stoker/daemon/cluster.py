"""What the daemon has to know of a cluster: which jobs are its, and what its users have set."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stoker.api.messages import JobRequest
from stoker.core.model import Attempt, Job, Need
from stoker.core.reasons import AtCluster
from stoker.errors import UsageError
from stoker.executors.slurm.cases import Standing
from stoker.executors.slurm.executor import NAME
from stoker.executors.slurm.options import ClusterConfig, check_options, warnings_for


@dataclass(frozen=True, slots=True)
class ClusterRules:
    """What was set, as it counts for the jobs of one submission."""

    by_default: bool
    config: ClusterConfig
    shared: Path | None

    def executor_of(self, job: JobRequest, attached: bool) -> str:
        """Which executor a job is for; a job that says nothing goes where the settings say."""
        asked: str | None = job.executor
        if asked is None and job.slurm:
            asked = NAME
        if attached:
            if asked == NAME:
                raise UsageError(
                    "a job in this terminal can't run on the cluster",
                    "use `stoker add --on-cluster`, and `stoker logs -f`",
                )
            return ""
        if asked == "local" and job.slurm:
            raise UsageError("--slurm is for jobs on the cluster", "leave out --executor local")
        return NAME if asked == NAME or (asked is None and self.by_default) else ""

    def warnings(self, need: Need) -> list[str]:
        """What the cluster can't be told of a need."""
        return warnings_for(need, self.config)


def check_cluster_job(need: Need, options: list[str]) -> None:
    """Refuse what a cluster can't be asked for."""
    if shutil.which("sbatch") is None:
        raise UsageError(
            "Slurm's commands are not on the daemon's PATH (there is no sbatch)",
            "start the daemon where they are; `stoker cluster check` says more",
        )
    check_options(options)
    if need.prefer:
        raise UsageError("--prefer means GPUs of this machine", "name a type with --on a100")
    if need.learns:
        raise UsageError(
            "memory is learned on the GPUs of this machine",
            "leave out --mem auto: the cluster gives whole GPUs",
        )
    if len(need.on) > 1:
        raise UsageError(
            "the cluster can be told one type of GPU", "write e.g. --on a100, or leave it out"
        )
    share = need.share_milli or 1000
    if need.max_per_gpu is not None and share * need.max_per_gpu > 1000:
        raise UsageError(
            "how many jobs share a GPU is for the cluster to say",
            "leave out --max-per-gpu, or ask for a share: --gpus 0.25",
        )


StandingOf = Callable[[int, int], Standing | None]  # by job and attempt


def attempt_of(job: Job) -> Attempt:
    """The attempt of an active job."""
    if job.active is None:
        raise LookupError(f"job {job.id} is {job.state}, and has no attempt")
    return job.active


def at_cluster(job: Job, standing_of: StandingOf) -> AtCluster:
    """Why a job that was handed over does not run yet."""
    attempt = attempt_of(job)
    standing, place = standing_of(job.id, attempt.number), attempt.place
    if standing is None:
        return AtCluster(place.partition(" ")[0], "None" if place else "", None)
    return AtCluster(standing.id, standing.reason, standing.unheard_since_ms)
