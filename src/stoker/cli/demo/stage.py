"""Where the demo plays: a temporary home, two stand-in GPUs, and what is typed and shown."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time

from stoker.cli.main import BROKEN_PIPE
from stoker.cli.temporary_home import TemporaryHome
from stoker.errors import Failed
from stoker.text.terminal import has_terminal, out, painted

_GPUS = ("0", "1")
_STAND_INS = "STOKER_STAND_IN_GPUS"


class Stage(TemporaryHome):
    """Use it as a context."""

    def __init__(self, *, pauses: bool) -> None:
        super().__init__("demo")
        self._pauses = pauses and has_terminal()

    def _furnish(self) -> None:
        super()._furnish()
        programs = os.path.join(self._root, "bin")
        self._env |= {
            _STAND_INS: os.path.join(self._root, "gpus"),
            "PATH": os.pathsep.join([programs, self._env.get("PATH", os.defpath)]),
        }
        for gpu in _GPUS:
            os.makedirs(os.path.join(self._env[_STAND_INS], gpu))
        shutil.copy(os.path.join(os.path.dirname(__file__), "train.py"), self.work)
        # A job finds `python`, also where the machine has only a `python3`, or none but this one.
        os.mkdir(programs)
        os.symlink(sys.executable, os.path.join(programs, "python"))

    # ------------------------------------------------------------------ what is shown

    def title(self, text: str) -> None:
        """The head of a scene."""
        out(f"\n{painted(text, 'bold', self._colour)}\n\n")
        self.pause(0.6)

    def tell(self, text: str) -> None:
        """What the demo itself has to say, laid out for 80 columns."""
        out(f"{text}\n")
        sys.stdout.flush()

    def show(self, command: str, *, read_s: float = 1.2) -> None:
        """Print a command as a user would type it, and run it; time to read what it said."""
        self.typed(command)
        words = shlex.split(command.replace("\\\n", " "))
        code = self._stoker(words[1:]).returncode
        if code == BROKEN_PIPE:
            raise BrokenPipeError
        if code != 0:
            raise Failed(f"`{' '.join(words)}` failed with exit code {code}", "see above")
        self.pause(read_s)

    def typed(self, command: str) -> None:
        """Print a command that is about to be run."""
        out(f"{painted('$', 'dim', self._colour)} {painted(command, 'cyan', self._colour)}\n")
        sys.stdout.flush()
        self.pause(0.4)

    def pause(self, seconds: float) -> None:
        """Time to read; in a file, and with --fast, there is none."""
        sys.stdout.flush()
        if self._pauses:
            time.sleep(seconds)
