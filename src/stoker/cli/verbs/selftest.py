"""`stoker selftest`: what Stoker claims of GPUs, tried on those of this machine."""

from __future__ import annotations

import sys
import time

from stoker.cli.options import JSON, Args, Verb, print_json

_WIDTH = 24


def selftest(args: Args) -> int:
    """Try it; exit code 0 if something was tried and nothing failed."""
    from stoker.cli.checklist import check_line
    from stoker.cli.selftest.bench import SelfTest
    from stoker.cli.selftest.lines import FAILED, OK, Line
    from stoker.cli.temporary_home import Interrupted
    from stoker.text.terminal import out, say

    began_s = time.monotonic()
    found: list[Line] = []
    try:
        with SelfTest() as test:
            for line in test.lines():
                found.append(line)
                if not args["json"]:
                    word = line.result.upper() if line.result == FAILED else line.result
                    out(check_line(f"{word:<7}", line.check, _WIDTH, line.text, line.todo))
                    sys.stdout.flush()
    except Interrupted as interrupted:
        sys.stdout.flush()
        say("stoker: the self-test was interrupted, and has cleaned up")
        return interrupted.exit_code
    counts = {word: [one.result for one in found].count(word) for word in ("ok", "failed")}
    # A machine on which only GPUs were found, and no job tried, has not passed.
    tried = any(one.result == OK and not one.check.removeprefix("GPU ").isalnum() for one in found)
    passed = tried and not counts["failed"]
    took_s = time.monotonic() - began_s
    if args["json"]:
        checks = [
            {"check": one.check, "result": one.result, "text": one.text, "todo": one.todo or None}
            for one in found
        ]
        print_json({"ok": passed, "seconds": round(took_s, 1), "checks": checks})
        return 0 if passed else 1
    skipped = len(found) - counts["ok"] - counts["failed"]
    words = f"{counts['ok']} ok, {counts['failed']} failed, {skipped} skipped, in {took_s:.0f} s"
    say(f"stoker: {words}" if tried else f"stoker: no job could be tried: {words}")
    return 0 if passed else 1


VERB = Verb(
    "selftest",
    "try on this machine's free GPUs, in about a minute, what Stoker claims",
    run=selftest,
    options=(JSON,),
    examples=(
        ("stoker selftest", "one line per check"),
        ("stoker selftest --json | jq '.checks[] | select(.result == \"failed\")'", "failures"),
    ),
    notes=(
        "Its jobs take 256 MiB each, through the driver's own libcuda.so.1. It checks that a job "
        "sees its own GPU and no other, that its memory is read, that one that runs out of memory "
        "is repeated, that two share a GPU, that killed ones free their memory, MPS and links.",
        "It uses only GPUs on which nothing runs and that your queue does not use, and says what "
        "it skips. It has a temporary home and a daemon of its own, and leaves nothing behind, "
        "also after Ctrl-C. Exit code: 0 if jobs were tried and nothing failed, else 1.",
    ),
)
