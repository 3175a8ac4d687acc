"""Options of a job as Python values: every form that is taken, and what is refused."""

from __future__ import annotations

import ast
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.api import job_keywords
from stoker.api.job_option import JobOption
from stoker.api.job_options import BY_KEY, JOB_OPTIONS
from stoker.errors import UsageError
from stoker.moments import moment_ms
from stoker.submission.keywords import call_fields, in_keywords, is_option, job_fields


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"gpus": 2}, {"gpus": 2}),
        ({"gpus": 0}, {"gpus": 0}),
        ({"gpus": "3"}, {"gpus": 3}),
        ({"gpus": 0.5}, {"share": 0.5}),
        ({"gpus": 2.0}, {"gpus": 2}),
        ({"gpus": 1 / 3}, {"share": 0.333}),
        ({"mem": "8G"}, {"mem_mib": 8192}),
        ({"on": "0,2"}, {"on": ["0", "2"]}),
        ({"on": [0, 2]}, {"on": ["0", "2"]}),
        ({"on": ("0-2", "GPU-abc")}, {"on": ["0", "1", "2", "GPU-abc"]}),
        ({"prefer": 3}, {"prefer": ["3"]}),
        ({"exclusive": True, "hold": False}, {"exclusive": True}),
        ({"cpus": 4, "priority": -3, "retries": 2}, {"cpus": 4, "priority": -3, "retries": 2}),
        ({"max_per_gpu": 3}, {"max_per_gpu": 3}),
        ({"name": "big", "group": "paper"}, {"name": "big", "group": "paper"}),
        ({"after": 7}, {"after": ["7"]}),
        ({"after": [7, "8"], "after_any": "9,10"}, {"after": ["7", "8"], "after_any": ["9", "10"]}),
        ({"after": [SimpleNamespace(job_id=4)]}, {"after": ["4"]}),
        ({"after": SimpleNamespace(job_id=None)}, {"after": []}),
        ({"time_limit": "2h"}, {"time_limit_ms": 7_200_000}),
        ({"time_limit": timedelta(milliseconds=1500)}, {"time_limit_ms": 1500}),
        ({"time_limit": timedelta(minutes=2)}, {"time_limit_ms": 120_000}),
        ({"grace": 0}, {"grace_ms": 0}),
        ({"signal": "USR1@2m"}, {"signal": "USR1", "signal_before_ms": 120_000}),
        ({"env": {"A": 1}}, {"env": {"A": "1"}}),
        ({"gpu_arg": True}, {"gpu_arg": True}),
        ({"visible": "all"}, {"visible": "all"}),
        ({"mem": None, "name": None}, {}),
        (
            {"params": {"lr": 0.1, "act": object, "bad": float("nan"), "many": (1, [2])}},
            {"params": {"lr": 0.1, "act": str(object), "bad": "nan", "many": [1, [2]]}},
        ),
    ],
)
def test_an_option_may_be_text_or_the_python_value_that_it_means(
    options: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert job_fields(options) == fields


def test_a_moment_may_be_a_datetime() -> None:
    moment = datetime(2031, 5, 6, 7, 8, tzinfo=UTC)
    assert job_fields({"at": moment}) == job_fields({"at": "2031-05-06T07:08Z"})
    assert job_fields({"at": moment})["not_before_ms"] == moment_ms("2031-05-06T07:08Z", 0)


def test_paths_become_absolute_and_output_files_are_in_the_jobs_own_directory(
    tmp_path: Path,
) -> None:
    fields = job_fields({"cwd": "runs", "out": Path("a.txt"), "err": "/tmp/e"}, str(tmp_path))
    assert fields == {"cwd": f"{tmp_path}/runs", "out": f"{tmp_path}/runs/a.txt", "err": "/tmp/e"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpu": 1}, "did you mean gpus?"),
        ({"wallclock": 1}, "the options are"),
        ({"gpus": 1.5}, "gpus"),
        ({"gpus": float("nan")}, "gpus"),
        ({"gpus": -1}, "gpus"),
        ({"mem": "8 apples"}, "mem"),
        ({"mem": 10}, "10G or 10M?"),
        ({"mem_margin": 10}, "10%, 10G or 10M?"),
        ({"max_log": 2}, "2G or 2M?"),
        ({"time_limit": "2"}, "2m or 2h?"),
        ({"time_limit": 2}, "2m or 2h?"),
        ({"time_limit": 1.5}, "1.5m or 1.5h?"),
        ({"time_limit": 7200}, "7200s or 7200m?"),
        ({"time_limit": -2}, "time_limit"),
        ({"time_limit": True}, "time_limit"),
        ({"grace": 30}, "30s or 30m?"),
        ({"grace": "30"}, "30s or 30m?"),
        ({"on": "x:y"}, "on"),
        ({"time_limit": 0}, "time_limit"),
        ({"time_limit": float("inf")}, "time_limit"),
        ({"time_limit": "soon"}, "time_limit"),
        ({"after": "last"}, "after"),
        ({"name": "two\nlines"}, "name"),
        ({"retries": 1.5}, "retries"),
        ({"cwd": ""}, "cwd"),
        ({"signal": "USR1"}, "signal"),
        ({"env": 5}, "env: '5' is not understood"),
        ({"after": 1.5}, "after"),
        ({"slurm": 7}, "slurm"),
        ({"out": 5}, "out: '5' is not text"),
        ({"err": True}, "err: 'True' is not text"),
        ({"cwd": ["a", "b"]}, "cwd: "),
        ({"hook": 5}, "hook: '5' is not text"),
        ({"append": 5}, "append: '5' is neither yes nor no"),
        ({"append": "perhaps"}, "append: 'perhaps' is neither yes nor no"),
        ({"hold": object()}, "is neither yes nor no"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_options_name(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        job_fields(options)
    assert words in f"{caught.value.message} {caught.value.hint}"


def test_every_option_of_the_table_is_a_keyword_that_a_type_checker_knows() -> None:
    tree = ast.parse(Path(job_keywords.__file__).read_text(encoding="utf-8"))
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    keywords = [one for one in classes if one.name in ("PointOptions", "LineOptions", "JobOptions")]
    said = [i.target for one in keywords for i in one.body if isinstance(i, ast.AnnAssign)]
    named = [target.id for target in said if isinstance(target, ast.Name)]
    assert sorted(named) == sorted([*BY_KEY, "params"])
    assert all(is_option(name) for name in named)


def test_a_call_has_no_command_line_to_append_gpus_to() -> None:
    with pytest.raises(UsageError, match="gpu_arg"):
        call_fields({"gpu_arg": True})
    assert call_fields({"gpus": 2}) == {"gpus": 2}


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("add --time-limit", "add time_limit"),
        ("use either --mem auto or --mem 8G", 'use either mem="auto" or mem="8G"'),
        ("write --gpus 1 --exclusive", "write gpus=1 exclusive"),
        ("name them with --on 0,1, or use --gpus 0.5", 'name them with on="0,1", or use gpus=0.5'),
        ("--mem-margin 10% is much.", 'mem_margin="10%" is much.'),
        ("put it after --, e.g. -- true", "put it after --, e.g. -- true"),
        ("see `stoker ls --group x` for --group", "see `stoker ls --group x` for group"),
        ("--no-such thing", "--no-such thing"),
    ],
)
def test_an_error_names_options_as_python_does(said: str, wanted: str) -> None:
    error = in_keywords(UsageError(said, said))
    assert (error.message, error.hint) == (wanted, wanted)


def test_options_that_exclude_each_other_are_named_as_keywords() -> None:
    with pytest.raises(UsageError) as caught:
        job_fields({"on_cluster": True, "executor": "local"})
    assert str(caught.value) == 'on_cluster and executor="local" exclude each other; give one'


TEXTS = [one for one in JOB_OPTIONS if any(f.kind == "text" and f.least for f in one.fields)]


@pytest.mark.parametrize("option", TEXTS, ids=[option.name for option in TEXTS])
def test_a_text_that_must_not_be_empty_is_refused_by_its_reader(option: JobOption) -> None:
    with pytest.raises(UsageError, match="empty"):
        option.convert("")
    with pytest.raises(UsageError, match="empty"):
        job_fields({option.key: ""})
