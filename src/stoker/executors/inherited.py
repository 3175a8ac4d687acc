"""Variables of another launcher that a job on this machine does not inherit.

A job that is queued from within a Slurm allocation, an MPI run, a worker of torchrun or a notebook
would have variables that describe that run. Lightning, torchrun and others take them for the job's
own, and wait for processes that never come. What is set with --env is the job's own, and --env-all
passes everything on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.core.model import Launch

LEFT_OUT = (
    # Slurm
    "SLURM_*", "SLURMD_*",
    # MPI: PMI and PMIx, Open MPI, MPICH and Intel MPI, MVAPICH, Cray
    "PMI_*", "PMI2_*", "PMIX_*", "OMPI_*", "PRTE_*", "HYDI_*", "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS", "MV2_COMM_WORLD_*", "PALS_*",
    # PyTorch's launchers, and what trainers take for theirs
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK",
    "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "TORCHELASTIC_*", "PET_*",
    # Jupyter: a kernel and its hub, and plots that are drawn into a notebook
    "JPY_*", "JUPYTERHUB_*", "JUPYTER_SERVER_*", "MPLBACKEND",
)  # fmt: skip
# Where Slurm's configuration is does not depend on the run, and its commands need it.
_KEPT = frozenset(("SLURM_CONF", "SLURM_CONF_SERVER"))
_OF_A_NOTEBOOK = "module://"  # how the value of MPLBACKEND begins there; any other is the user's

# All names are searched at once: most environments have none of them.
_names = re.compile(
    "^(?:" + "|".join(name.replace("*", ".+") for name in LEFT_OUT) + ")$", re.MULTILINE
)


def left_out(launch: Launch) -> list[str]:
    """The variables of the submitter that a job on this machine does not get."""
    return [] if launch.options.get("env_all") else of_another_run(launch.env)


def of_another_run(env: Mapping[str, str]) -> list[str]:
    """The names of those that describe another run."""
    return [
        name
        for name in _names.findall("\n".join(env))
        if name not in _KEPT
        and name in env  # A name may have a newline in it.
        and (name != "MPLBACKEND" or env[name].startswith(_OF_A_NOTEBOOK))
    ]
