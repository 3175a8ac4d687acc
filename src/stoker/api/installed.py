"""Whether what Stoker has installed under the names of older tools is still there, and is its own.

Two of these tools have packages or commands of the same names. To uninstall one of them after
Stoker was installed deletes files of Stoker, and imports or commands fail for no visible reason.
"""

from __future__ import annotations

import os
import sys

PACKAGE = "gpu_task_scheduler"
_MODULES = ("__init__", "config_manager", "gpu_task", "gpu_task_scheduler", "instance", "lanes")
COMMANDS = ("simple_gpu_scheduler", "simple_hypersearch")
# A word that is in each of these files and in none of the older tools' (RECORD lists no modules of
# an editable installation).
_OF_MODULE, _OF_COMMAND = b"Stoker", b"stoker.compat"


def what_is_missing() -> list[str]:
    """What is wrong with this installation, in a line each."""
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = _of_package(os.path.join(own, PACKAGE))
    program = os.path.realpath(sys.argv[0])  # It may have been called by a link of the user's.
    if os.path.basename(program) == "stoker":
        folder = os.path.dirname(program)
        found += _not_ours([os.path.join(folder, name) for name in COMMANDS], _OF_COMMAND)
    return found


def _of_package(folder: str) -> list[str]:
    wrong = _not_ours([os.path.join(folder, f"{name}.py") for name in _MODULES], _OF_MODULE)
    if wrong:
        return wrong[:1]  # One command mends them all.
    for path in sys.path:
        other = os.path.join(os.path.abspath(path), PACKAGE)
        if os.path.realpath(other) == os.path.realpath(folder):
            return []
        if os.path.isfile(os.path.join(other, "__init__.py")):
            return [f"{other} is imported instead of Stoker's {PACKAGE}; uninstall it"]
    return []


def _not_ours(paths: list[str], word: bytes) -> list[str]:
    found = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                if word not in file.read(10_000):
                    found.append(f"{path} is another tool's; uninstall it, then {_mend()}")
        except OSError:
            found.append(f"{path} is missing; {_mend()}")
    return found


def _mend() -> str:
    from stoker.installing import reinstall_command

    return f"reinstall Stoker: {reinstall_command()}"
