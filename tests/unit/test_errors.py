"""What Python shows of an error."""

from __future__ import annotations

import pickle

import pytest

from stoker.errors import BY_CODE, NotFound, NoUnit, StokerError, UsageError
from stoker.library.failures import JobFailed
from stoker.submission.keywords import job_fields


def test_an_error_says_in_python_too_what_to_do() -> None:
    with pytest.raises(UsageError) as refused:
        job_fields({"nmae": "x"})
    assert str(refused.value) == "a job has no option 'nmae'; did you mean name?"
    assert str(NotFound("there is no job 7")) == "there is no job 7"


@pytest.mark.parametrize("kind", [*BY_CODE.values(), NoUnit])
def test_an_error_is_the_same_when_it_comes_back_from_another_process(
    kind: type[StokerError],
) -> None:
    error = pickle.loads(pickle.dumps(kind("no", "yes")))
    assert type(error) is kind
    assert kind.__module__ == "stoker.errors"  # as a traceback shows it
    assert (error.message, error.hint, str(error)) == ("no", "yes", "no; yes")


def test_a_failed_job_says_where_to_look_and_shows_its_log() -> None:
    said = str(JobFailed(7, "failed", "exit code 3", 3, log_tail="the end"))
    assert said.startswith("job 7 failed: exit code 3; see `stoker show 7`")
    assert said.endswith("the end")
