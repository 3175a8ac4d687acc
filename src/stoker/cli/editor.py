"""The user's editor, on a file of ours that nobody else can read."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile

from stoker.errors import Failed, StokerError, UsageError
from stoker.text.terminal import has_terminal, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Read = TypeVar("Read")

_USUAL = ("editor", "sensible-editor", "nano", "vim", "vi")


def is_wanted() -> bool:
    """Whether an editor can be opened: there is a terminal for it, or one was named for this."""
    return bool(_named()) or _on_terminal()


def _named() -> str:
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""


def _on_terminal() -> bool:
    return has_terminal() and has_terminal(sys.stdin)


def _words() -> list[str]:
    """The editor's command line; it is run without a shell."""
    named = _named()
    try:
        words = shlex.split(named)
    except ValueError:
        raise UsageError(f"EDITOR has a quote that does not end: {named}", "correct it") from None
    if words:
        return words
    found = next((one for one in _USUAL if shutil.which(one)), None)
    if found is None:
        raise UsageError("no editor was found", "set EDITOR, e.g. export EDITOR=nano")
    return [found]


class EditedFile:
    """A file in a private directory, opened in the editor; use it as a context.

    It is deleted at the end, unless what the user wrote would be lost with it: see `keep`.
    """

    def __init__(self, name: str, text: str) -> None:
        self._directory = tempfile.mkdtemp(prefix="stoker-edit-")  # It has mode 0700.
        self.path = os.path.join(self._directory, name)
        self._kept = False
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)

    def __enter__(self) -> EditedFile:
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._kept:
            shutil.rmtree(self._directory, ignore_errors=True)

    def keep(self, error: StokerError) -> None:
        """Leave the file to the user, and name it where the error says what to do."""
        error.hint += ("; " if error.hint else "") + self.kept()

    def kept(self) -> str:
        """Leave the file to the user; says where it is."""
        self._kept = True
        return f"your changes are in {self.path}"

    def edited(self, read: Callable[[str], Read]) -> Read:
        """What `read` makes of the file once it was edited; what it refuses can be mended."""
        while True:
            self._open()
            try:
                with open(self.path, encoding="utf-8") as file:
                    return read(file.read())
            except UnicodeDecodeError:
                error = UsageError("the file is not valid UTF-8", "save it as UTF-8")
            except FileNotFoundError:
                raise Failed("the file was deleted: nothing was changed") from None
            except UsageError as refused:
                error = refused
            if not self._again(error):
                self.keep(error)
                raise error

    def _open(self) -> None:
        words = _words()
        try:
            code = subprocess.run([*words, self.path]).returncode
        except OSError as error:
            raise UsageError(
                f"the editor {words[0]} can't be started: {error.strerror}", "set EDITOR"
            ) from None
        if code:
            raise Failed(f"the editor {words[0]} failed (exit code {code}): nothing was changed")

    def _again(self, error: UsageError) -> bool:
        if not _on_terminal():
            return False
        say(f"stoker: {error}")
        try:
            answer = input("Open it again? [Y/n] ").strip().lower()
        except EOFError:
            return False
        return answer in ("", "y", "yes")
