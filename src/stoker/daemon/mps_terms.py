"""Whether a job shares its GPU through MPS, and what stands against it, in one line."""

from __future__ import annotations

from collections.abc import Callable

from stoker.core.state import State
from stoker.errors import UsageError
from stoker.executors.mps_control import PROGRAM


def mps_terms(
    asked: bool | None,
    thread_percentage: int | None,
    gpus: int,
    usual: bool,
    is_there: Callable[[], bool],
) -> tuple[bool, int | None]:
    """What a request comes to: MPS or not, and the share of the GPU's threads.

    `usual` counts for a job that says nothing and has one GPU: a server is for one GPU, and a
    program can be the client of one server.
    """
    if asked and gpus != 1:
        raise UsageError(
            "--mps is for jobs on one GPU, or on a share of one", "leave out --mps, or --gpus"
        )
    mps = usual and gpus == 1 if asked is None else asked
    if thread_percentage is not None and not mps:
        raise UsageError("--thread-percentage is about MPS", "add --mps, or leave it out")
    if mps and not is_there():
        raise UsageError(
            f"there is no {PROGRAM} on the daemon's PATH",
            "it comes with NVIDIA's driver; start the daemon with it on its PATH, "
            "or leave out --mps" + ("" if asked else " by `stoker config set mps off`"),
        )
    return mps, thread_percentage


def refuse_mps_without_nvidia(state: State) -> None:
    """Refuse MPS where all GPUs are another vendor's."""
    vendors = {gpu.vendor for gpu in state.gpus.values() if not gpu.removing}
    if vendors == {"amd"}:
        raise UsageError("MPS is NVIDIA's, and the GPUs here are AMD's", "leave out --mps")
