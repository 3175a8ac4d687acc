"""What is known of a process and its descendants: who catches a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from stoker.cli.processtree import anything_catches, kill_tree, tree

# Processes one below the other; only the last has a handler, which Python would have by itself.
NESTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
for _ in range(int(sys.argv[1])):
    if os.fork(): signal.pause()
signal.signal(signal.SIGINT, {handler})
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def nested(request: pytest.FixtureRequest) -> Iterator[int]:
    depth, handler = request.param
    words = [sys.executable, "-c", NESTED.format(handler=handler), str(depth)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            kill_tree(process.pid)


@pytest.mark.parametrize("nested", [(0, "print"), (1, "print"), (3, "print")], indirect=True)
def test_a_handler_is_found_however_deep_below_a_shell_its_program_is(nested: int) -> None:
    assert anything_catches(nested, signal.SIGINT)
    assert not anything_catches(nested, signal.SIGUSR2)


@pytest.mark.parametrize("nested", [(0, "signal.SIG_IGN"), (2, "signal.SIG_DFL")], indirect=True)
def test_what_ignores_a_signal_or_ends_by_it_has_no_handler(nested: int) -> None:
    assert len(tree(nested)) in (1, 3)
    assert not anything_catches(nested, signal.SIGINT)
