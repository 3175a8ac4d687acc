"""GPUs that jobs name where no driver shows any and none is declared: the first, and a typo."""

from __future__ import annotations

import pytest

from stoker import Client
from stoker.errors import UsageError
from stoker_home import StokerHome


def gpus(home: StokerHome) -> list[str]:
    return [gpu["id"] for gpu in home.call("gpus")["gpus"]]


@pytest.fixture(name="named")
def _named(home: StokerHome) -> StokerHome:
    """A Stoker that knows GPUs 0 and 1 only from the job that named them first."""
    ran = home.cli("add", "--on", "0,1", "--", "true")
    assert ran.code == 0, ran
    assert ran.err.count("`stoker gpus remove 0,1`") == 1, "it says what it has done"
    assert gpus(home) == ["0", "1"]
    return home


def test_the_first_job_that_names_gpus_declares_them_and_others_may_use_them(
    named: StokerHome,
) -> None:
    ran = named.cli("add", "--on", "1", "--", "true")
    assert (ran.code, ran.err) == (0, "")
    assert named.cli("add", "--", "true").code == 0
    assert gpus(named) == ["0", "1"]


@pytest.mark.parametrize(
    "words",
    [
        ("add", "--on", "88", "--", "true"),
        ("add", "--on", "1,88", "--", "true"),
        ("run", "--on", "88", "--", "true"),
        ("sweep", "--on", "88", "n=1", "--", "echo", "{n}"),
        ("feed", "--on", "88", "lines"),
        ("batch", "--on", "88", "--no-wait", "jobs.csv"),
        ("edit", "2", "--on", "88"),
    ],
)
def test_a_mistyped_gpu_is_refused_in_one_line_and_not_declared(
    named: StokerHome, words: tuple[str, ...]
) -> None:
    (named.work / "lines").write_text("true\n")
    (named.work / "jobs.csv").write_text("command\ntrue\n")
    named.add("--hold", "--", "true")
    ran = named.cli(*words)
    assert ran.code == 2
    line = "there is no GPU 88; there are 0, 1; `stoker gpus add 88` declares it\n"
    assert ran.err.endswith(line) and ran.err.count("GPU") == 1
    assert gpus(named) == ["0", "1"]


def test_python_refuses_it_too_and_a_gpu_that_is_then_added_can_be_named(named: StokerHome) -> None:
    with Client(named.home.root) as client, pytest.raises(UsageError, match="no GPU 88"):
        client.add(["true"], on=88)
    named.stoker("gpus", "add", "88")
    assert named.cli("add", "--on", "88", "--", "true").code == 0


def test_a_word_that_can_not_be_a_gpu_declares_none(home: StokerHome) -> None:
    ran = home.cli("add", "--on", "a100", "--", "true")
    assert (ran.code, gpus(home)) == (2, []), ran
    assert "no GPUs are known on this machine" in ran.err


def test_a_first_gpu_that_was_mistyped_can_be_taken_back(home: StokerHome) -> None:
    job = home.add("--on", "88", "--", "true")
    home.until_final(job)
    home.stoker("gpus", "remove", "88")
    home.until_final(home.add("--on", "0", "--", "true"))
    assert gpus(home) == ["0"]
