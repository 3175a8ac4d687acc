"""`--mem auto` where nothing measures memory: that jobs take whole GPUs is said, once."""

from __future__ import annotations

import warnings

import pytest

from gpu_box import Box
from stoker import Client
from stoker_home import StokerHome
from web.page_home import PageHome

SAID = "so a job with --mem auto takes a whole GPU"


def test_add_and_sweep_say_once_that_a_job_takes_a_whole_gpu(reused: StokerHome) -> None:
    ran = reused.cli("add", "--mem", "auto", "--", "true")
    assert ran.code == 0 and ran.err.count(SAID) == 1 == ran.err.count("\n")
    ran = reused.cli("sweep", "a=1,2,3", "--mem", "auto", "--", "echo", "{a}")
    assert ran.code == 0 and ran.err.count(SAID) == 1
    (reused.work / "rows.csv").write_text("command,mem\ntrue,auto\nfalse,auto\n")
    ran = reused.cli("batch", "rows.csv", "--no-wait")
    assert ran.code == 0 and ran.err.count(SAID) == 1
    for words in (("--mem", "whole"), ()):
        assert reused.cli("add", *words, "--", "true").err == ""


def test_nothing_is_said_where_a_driver_measures(box: Box) -> None:
    ran = box.cli("add", "--mem", "auto", "--", "true")
    assert (ran.code, ran.err) == (0, "")


def test_the_setting_is_told_as_the_option_is_once_per_submission(stoker: StokerHome) -> None:
    stoker.stoker("config", "set", "mem", "auto")
    said = "the setting mem is auto, so a job without --mem takes a whole GPU"
    for words in (("add", "--", "true"), ("sweep", "a=1,2,3", "--", "echo", "{a}")):
        ran = stoker.cli(*words)
        assert ran.code == 0 and ran.err.count(said) == 1 and SAID not in ran.err
    assert stoker.cli("add", "--mem", "auto", "--", "true").err.count(SAID) == 1
    for words in (("--mem", "whole"), ("--gpus", "0"), ("--gpus", "0.5")):
        assert stoker.cli("add", *words, "--", "true").err == ""


def test_the_library_warns_at_the_line_that_asked(reused: StokerHome) -> None:
    with Client(reused.home.root) as client:
        with pytest.warns(RuntimeWarning, match=SAID) as told:
            client.add("true", mem="auto")
        assert [one.filename for one in told] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            client.add("true", mem="whole")


def test_the_page_is_told_in_the_answer(reused: StokerHome) -> None:
    page = PageHome(reused)
    answer = page.post("/api/jobs", {"jobs": [{"argv": ["true"], "mem": "auto"}]})
    assert len(answer["warnings"]) == 1 and SAID in answer["warnings"][0]
