"""Which variables of another run a job on this machine does not get."""

from __future__ import annotations

from stoker.core.model import Launch
from stoker.executors.inherited import left_out


def test_names_are_matched_whole() -> None:
    named = {"SLURM_": "", "MY_SLURM_JOB_ID": "", "RANKS": "", "XRANK": "", "SLURM": ""}
    assert left_out(Launch(env=named)) == []
    assert left_out(Launch(env={"PET_NNODES": "", "RANK": "", "HOME": ""})) == [
        "PET_NNODES", "RANK",
    ]  # fmt: skip


def test_where_slurm_has_its_configuration_is_passed_on() -> None:
    named = {"SLURM_CONF": "/etc/slurm.conf", "SLURM_CONF_SERVER": "head", "SLURM_JOB_ID": "7"}
    assert left_out(Launch(env=named)) == ["SLURM_JOB_ID"]


def test_a_name_with_a_newline_is_not_mistaken_for_two() -> None:
    assert left_out(Launch(env={"A\nRANK": "1"})) == []


def test_a_job_that_wants_all_has_all() -> None:
    assert left_out(Launch(env={"RANK": "1"}, options={"env_all": True})) == []
