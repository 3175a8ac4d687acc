"""Processes that one part of Stoker starts and another one is: both sides say the same words.

That the keeper, the daemon and the page come up by these lines is what all of tests/e2e relies on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from stoker import command_lines
from stoker.api.messages import PageSettings
from stoker.library import channel, warm_server
from stoker.library.calling import Call
from stoker.library.calls import Calls
from stoker.library.pickling import pickled_call


@pytest.mark.parametrize("module", [command_lines.KEEPER, command_lines.DAEMON, command_lines.PAGE])
def test_what_is_started_by_its_name_is_there_and_can_be_run(module: str) -> None:
    assert callable(import_module(module).main)


def test_a_keeper_that_is_started_so_has_a_daemon_that_says_it_is_ready(tmp_path: Path) -> None:
    home, (ready, report) = tmp_path / "home", os.pipe()
    for name in ("attempts", "ledgers"):
        (home / name).mkdir(parents=True, mode=0o700)
    words = command_lines.keeper(str(home / "attempts"), str(home / "ledgers"), report)
    env = {**os.environ, "STOKER_HOME": str(home)}
    subprocess.run(words, env=env, pass_fds=(report,), timeout=60)
    os.close(report)
    with os.fdopen(ready, "rb") as said:
        assert said.readline() == b"ready\n"
    stop = [sys.executable, "-m", "stoker", "daemon", "stop"]
    assert subprocess.run(stop, env=env, timeout=60).returncode == 0


def test_the_page_says_why_it_can_not_be_served_by_what_it_was_told(tmp_path: Path) -> None:
    ready, report = os.pipe()
    life, held = os.pipe()
    settings = msgspec.json.encode(PageSettings(host="0.0.0.0")).decode()
    words = command_lines.page(report, life, settings, None, again=True)
    env = {**os.environ, "STOKER_HOME": str(tmp_path)}
    subprocess.run(words, env=env, pass_fds=(report, life), timeout=60, capture_output=True)
    os.close(report)
    with os.fdopen(ready, "rb") as said:
        assert said.read().startswith(b"usage\t")
    os.close(life)
    os.close(held)


@pytest.mark.parametrize("warm", [None, "", "torch,numpy"])
def test_a_call_is_known_by_its_words(warm: str | None) -> None:
    words = channel.worker_words("/calls/1.call", "train", warm)
    worker = words[1]
    assert command_lines.call_of(words) == (sys.executable, worker, "/calls/1.call", warm)
    assert os.path.exists(worker)


def test_other_commands_are_no_calls() -> None:
    for words in (["true"], ["python", "worker.py", "--call", "f", "t"], ["sh", "-c", "--warm="]):
        assert command_lines.call_of(words) is None


@pytest.mark.parametrize("warm", [None, "json"])
def test_a_worker_makes_the_call_that_its_words_name(tmp_path: Path, warm: str | None) -> None:
    calls = Calls(str(tmp_path / "calls"))
    file = calls.write(pickled_call(Call(print, ("made",), {}), print))
    ran = subprocess.run(channel.worker_words(file, "print", warm), capture_output=True, timeout=60)
    assert ran.stdout == b"made\n" and ran.returncode == 0, ran.stderr
    calls.close()


def test_a_warm_server_is_told_in_the_words_that_it_reads() -> None:
    words = command_lines.warm_server("python", "worker.py", "json", 60.0)
    assert words == ["python", "worker.py", "--warm-server", warm_server.PROTOCOL, "json", "60.0"]
