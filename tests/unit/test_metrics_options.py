"""The options of a job that say where its metrics are, as front ends read them."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.api.job_options import BY_KEY
from stoker.errors import UsageError
from stoker.metrics.spec import folder_of
from stoker.submission.job_file import changes_in, file_text, table_of
from stoker.submission.keywords import job_fields, value_of


@pytest.mark.parametrize(
    ("said", "value"),
    [
        (r"loss=a; b (\S+)", [r"loss=a; b (\S+)"]),  # A semicolon is part of the expression.
        ([r"loss=a (\S+)", "acc=(b)"], [r"loss=a (\S+)", "acc=(b)"]),
        ({"loss": r"a (\S+)"}, [r"loss=a (\S+)"]),
    ],
)
def test_one_expression_or_several_in_files_and_python(said: Any, value: list[str]) -> None:
    assert value_of(BY_KEY["metric"], said) == value
    assert job_fields({"metric": said}) == {"metric": value}


@pytest.mark.parametrize("said", ["loss", "loss=x", ["a=(b)", "c=("], 7, {"": "(x)"}])
def test_what_is_no_expression_is_refused(said: Any) -> None:
    with pytest.raises(UsageError, match="metric"):
        job_fields({"metric": said})


def test_a_file_or_directory_is_that_of_the_job() -> None:
    key, params = (7, 2), {"lr": 0.1, "data": "a/b"}
    assert folder_of(None, "/work", key, None, {}) is None
    assert folder_of("runs/{name}/{attempt}", "/here", key, "big", {}) == "/here/runs/big/2"
    assert folder_of("/runs/{id}", "/work", key, None, {}) == "/runs/7"
    assert folder_of("{lr}/{data}", "/here", key, None, params) == "/here/0.1/a_b"


def test_several_expressions_are_a_list_in_the_file_that_is_edited() -> None:
    need = {"gpus": 1, "share": None, "mem_mib": None, "mem": None, "margin": [10, 0]}
    others = dict.fromkeys(
        (field.name for option in BY_KEY.values() for field in option.fields), None
    )
    job = {**others, "need": need, "argv": ["true"], "shell": None, "executor": "local",
           "signal_spec": None, "options": {"metric": ["a=(b)", "c=(d)"]}}  # fmt: skip
    del job["metric"]
    table = table_of(job)
    assert table["metric"] == ["a=(b)", "c=(d)"]
    text = file_text({7: table})
    assert changes_in(text, {7: table}) == {}
    changed = text.replace('"c=(d)"', '"e=(f)"')
    assert changes_in(changed, {7: table}) == {7: {"metric": ["a=(b)", "e=(f)"]}}
    without = "".join(line for line in text.splitlines(True) if not line.startswith("metric ="))
    assert changes_in(without, {7: table}) == {7: {"metric": []}}
