"""`edit` sends only the fields that were named, and takes back what it must."""

from __future__ import annotations

from stoker.api.job_option import NONE
from stoker.submission.changes import changed_fields


def test_a_flag_that_is_taken_back_is_sent_as_false() -> None:
    assert changed_fields({"exclusive": False}) == {"exclusive": False}


def test_a_job_that_is_not_for_the_cluster_any_more_is_for_this_machine() -> None:
    assert changed_fields({"on_cluster": False}) == {"executor": "local"}
    assert changed_fields({"on_cluster": True}) == {"executor": "slurm"}


def test_none_takes_back_every_field_of_an_option() -> None:
    assert changed_fields({"mem": NONE}) == {"mem": None, "mem_mib": None}
    assert changed_fields({"signal": NONE}) == {"signal": None, "signal_before_ms": 0}
