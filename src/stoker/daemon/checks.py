"""What no process could be made of is refused, in one line, before it is queued."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from stoker.errors import UsageError
from stoker.quantities import quoted

# The kernel's limits for one word and (with room left for the environment) for all of them.
MOST_WORD_BYTES = 128 * 1024 - 1
MOST_COMMAND_BYTES = 1024 * 1024


def check_command(argv: Sequence[str], shell: str | None) -> None:
    """Refuse what no process could be made of."""
    words = argv if shell is None else [shell]
    if bool(argv) == (shell is not None) or not words[0].strip():
        raise UsageError("no command was given", "put it after --, e.g. -- python train.py")
    text = "".join(words)
    # A character has at most four bytes, so most commands need no closer look.
    if len(text) > MOST_WORD_BYTES // 4:
        sizes = [len(word.encode()) for word in words]
        if max(sizes) > MOST_WORD_BYTES or sum(sizes) > MOST_COMMAND_BYTES:
            raise UsageError(
                "the command is too long for the system to run",
                "put it into a script and queue that",
            )
    if "\0" in text:
        raise UsageError("the command has a NUL character in it", "leave it out")


def check_environment(env: Mapping[str, str]) -> None:
    """Refuse names and values that no environment can hold."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise UsageError(f"{quoted(name)} can't be an environment variable", "leave it out")


def check_directory(path: str) -> None:
    """Refuse a working directory that is not there."""
    if not os.path.isabs(path) or "\0" in path:
        raise UsageError(f"{quoted(path)} is not an absolute path", "name the whole path")
    if not os.path.isdir(path):
        raise UsageError(f"there is no directory {quoted(path)}", "create it, or choose another")


def check_output(path: str | None, option: str) -> None:
    """Refuse an output file that could not be made."""
    if path is None:
        return
    if not os.path.isabs(path) or "\0" in path:
        raise UsageError(f"{option} {quoted(path)} is not an absolute path", "name the whole path")
    if os.path.isdir(path):
        raise UsageError(f"{option} {quoted(path)} is a directory", "name a file")
    if not os.path.isdir(os.path.dirname(path)):
        raise UsageError(
            f"{option}: there is no directory {quoted(os.path.dirname(path))}", "create it first"
        )
