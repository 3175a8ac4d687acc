"""The way into the command line: find the verb, run it, turn errors into exit codes.

This is the one place where an error becomes a line on stderr and a number.
"""

from __future__ import annotations

import gc
import os
import sys

from stoker.cli.verbs import VERBS, load
from stoker.errors import StokerError, UsageError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from stoker.cli.options import Verb

INTERRUPTED = 130
BROKEN_PIPE = 141


def dispatch(words: list[str]) -> int:
    """Run what the words ask for and give the exit code."""
    word = words[0] if words else ""
    if word in ("-h", "--help"):
        from stoker.cli.help import show_overview

        show_overview()
        return 0
    if word in ("-V", "--version"):
        from stoker import __version__
        from stoker.text.terminal import out

        out(f"stoker {__version__}\n")
        return 0
    if not word or word.startswith("-"):
        return _run(load("status"), words)
    if word not in VERBS:
        from stoker.text.suggest import meant

        guess = meant(word, [*VERBS, "--version"])
        if "/" in word or (not guess and len(words) > 1 and _is_program(word)):
            guess = " ".join(["add", *words])
        raise UsageError(
            f"there is no verb {quoted(word)}",
            f"did you mean `stoker {guess}`?" if guess else "see `stoker --help`",
        )
    return _run(load(word), words[1:])


def _is_program(word: str) -> bool:
    import shutil

    return shutil.which(word) is not None


def _run(verb: Verb, words: list[str]) -> int:
    if os.environ.get(verb.excused_by):
        try:
            return _ran(verb, words)
        except StokerError as error:
            _tell(error.message, error.hint)
            return 0
    return _ran(verb, words)


def _ran(verb: Verb, words: list[str]) -> int:
    from stoker.cli.options import choose, parse

    verb, words = choose(verb, words)
    if verb.run is not None:
        args = parse(verb, words)
        if args is not None:
            _collect_from_here()
            return verb.run(args) or 0
    elif not words:
        what = f"stoker {verb.name} needs one of: {', '.join(verb.members)}"
        raise UsageError(what, f"e.g. {verb.examples[0][0]}")
    elif words[0] not in ("-h", "--help"):
        parse(verb, words)
    from stoker.cli.help import show_verb

    show_verb(verb)
    return 0


def _collect_from_here() -> None:
    """Look for garbage from now on, and not among what was loaded, which stays (see `entry`)."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def main(argv: list[str] | None = None) -> int:
    """Run a command line and give its exit code; nothing is raised for what a user can cause."""
    words = sys.argv[1:] if argv is None else argv
    # A terminal that can't show a letter shows its escape instead of making the command fail.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = dispatch(words)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except StokerError as error:
        _flush_quietly()
        _tell(error.message, error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        _flush_quietly()
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return BROKEN_PIPE
    except OSError as error:
        # The client turns its own trouble into StokerErrors, so this is the output, or a disk.
        _forget_stdout()
        where = f" {error.filename}" if error.filename else ""
        _tell(f"system error{where}: {error.strerror or error}", "fix that and try again")
        return 1


def _tell(message: str, hint: str) -> None:
    from stoker.text.terminal import say

    say(f"stoker: {message}; {hint}" if hint else f"stoker: {message}")


def _flush_quietly() -> None:
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _forget_stdout()


def _forget_stdout() -> None:
    """Let what is still in the buffer go nowhere, so that the interpreter's end is quiet too."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        pass


def entry() -> NoReturn:
    """The console script: end as soon as the work is done.

    Taking the interpreter apart in good order takes longer than many a command; nothing is left
    that would need it once the streams are flushed.
    """
    gc.disable()  # To load a verb makes much that stays, and no garbage to look for.
    try:
        code = main()
        if sys.stderr is not None:
            sys.stderr.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except OSError:
        code = 1
    os._exit(code)
