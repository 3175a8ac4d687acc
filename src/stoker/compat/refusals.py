"""How the older tools' commands refuse what they can't do: in one line, with an exit code."""

from __future__ import annotations

import argparse

from stoker.errors import StokerError, UsageError
from stoker.text.terminal import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; the usage is for those who ask for it."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        raise UsageError(message, f"see `{self.prog} -h`")


def refused(program: str, error: StokerError) -> int:
    """Say what was wrong and what to do; the exit code."""
    say(f"{program}: {error.message}" + (f"; {error.hint}" if error.hint else ""))
    return error.exit_code
