"""What `warm` may be, and how it is said to whoever starts the call."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from stoker import Executor
from stoker.command_lines import WARM_PROTOCOL
from stoker.errors import UsageError
from stoker.library.channel import worker_words
from stoker.library.executor import _modules_text
from stoker.library.warm_server import PROTOCOL, uses_gpus
from waiting import PATIENCE_S


@pytest.mark.parametrize(
    ("warm", "text"),
    [
        (False, None),
        (True, ""),
        ([], ""),
        (["torch"], "torch"),
        (("torch", "os.path", "torch"), "torch,os.path"),
        (iter(["numpy"]), "numpy"),
    ],
)
def test_warm_is_true_or_the_names_of_modules(warm: Any, text: str | None) -> None:
    assert _modules_text(warm) == text


@pytest.mark.parametrize(
    "warm", ["x", "torch", None, 1, ["a-b"], ["a,b"], [""], ["a..b"], ["--x"], [1], b"x", 0.5]
)
def test_anything_else_is_refused_before_anything_is_done(warm: Any) -> None:
    with pytest.raises(UsageError) as caught:
        Executor(warm=warm)
    assert caught.value.message == "warm is True, or the names of modules to load beforehand"
    assert caught.value.hint == 'write e.g. warm=["torch", "numpy"]'


def test_only_a_warm_call_says_so_in_its_words() -> None:
    cold = worker_words("/calls/1.call", "train")
    assert len(cold) == 5 and worker_words("/calls/1.call", "train", "") == [*cold, "--warm="]
    assert worker_words("/calls/1.call", "train", "torch,numpy")[-1] == "--warm=torch,numpy"


def test_both_ends_speak_the_same_protocol() -> None:
    assert PROTOCOL == WARM_PROTOCOL


def run_in_new_process(statements: str) -> str:
    """What is printed by a process that has warm_server; its own threads would be in the way."""
    program = f"from stoker.library import warm_server\n{statements}"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    return done.stdout + done.stderr


def test_a_thread_that_stays_is_told_at_once_and_not_after_the_time_that_one_has_to_end() -> None:
    said = run_in_new_process("""
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
warm_server._THREADS_END_WITHIN_S = float("inf")
try:
    warm_server._let_threads_end()
except warm_server.CantWarm as why:
    print(why)
""")
    assert said.startswith("2 threads run in a process that has loaded them")


def test_a_thread_that_ends_because_of_a_fork_is_waited_for() -> None:
    said = run_in_new_process("""
import os, threading
end = threading.Event()
threading.Thread(target=end.wait, daemon=True).start()
os.register_at_fork(before=end.set)
warm_server._THREADS_BEGIN_TO_END_WITHIN_S = float("inf")
warm_server._THREADS_END_WITHIN_S = float("inf")
warm_server._let_threads_end()
print(len(os.listdir("/proc/self/task")))
""")
    assert said == "1\n"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("warm_server.CantWarm('the reason')", "no the reason"),
        ("OSError(12, 'clone')", "no it can't be made ready: OSError: [Errno 12] clone"),
    ],
)
def test_why_calls_can_not_be_warm_is_a_sentence_and_no_name_of_a_class(
    error: str, text: str
) -> None:
    said = run_in_new_process(f"""
import socket
ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
warm_server._give_up(its, {error})
print(ours.recv(1000).decode())
""")
    assert said == f"{text}\n"


def test_a_warm_server_in_which_a_driver_was_asked_for_gpus_is_noticed() -> None:
    harmless = ["/dev/null", "pipe:[7]", "/usr/lib/libcuda.so.1"]
    assert not uses_gpus(harmless)
    for device in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dri/renderD128"):
        assert uses_gpus([*harmless, device])
