"""What `warm` may be, and how it is said to whoever starts the call."""

from __future__ import annotations

from typing import Any

import pytest

from stoker import Executor
from stoker.command_lines import WARM_PROTOCOL
from stoker.errors import UsageError
from stoker.library.channel import worker_words
from stoker.library.executor import _modules_text
from stoker.library.warm_server import PROTOCOL, uses_gpus


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


def test_a_warm_server_in_which_a_driver_was_asked_for_gpus_is_noticed() -> None:
    harmless = ["/dev/null", "pipe:[7]", "/usr/lib/libcuda.so.1"]
    assert not uses_gpus(harmless)
    for device in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dri/renderD128"):
        assert uses_gpus([*harmless, device])
