"""`stoker doctor`: what of this machine and this installation is right, and what to do."""

from __future__ import annotations

from stoker.cli.checklist import check_line
from stoker.cli.options import JSON, Args, Option, Verb, print_json
from stoker.text.terminal import out, say

_DRIVERS_HAVE_S = 30.0


def doctor(args: Args) -> int:
    """Print one line per check; exit code 1 if anything is wrong."""
    if args["report"] is not None:
        return _report(args["report"])
    from stoker.cli.doctor.checks import findings
    from stoker.cli.doctor.facts import gather

    found = findings(gather())
    wrong = [name for name, finding in found if finding.todo]
    if args["json"]:
        checks = [
            {"name": name, "ok": not one.todo, "text": one.text, "todo": one.todo or None}
            for name, one in found
        ]
        print_json({"ok": not wrong, "checks": checks})
        return 1 if wrong else 0
    width = max(len(name) for name, _ in found)
    for name, one in found:
        out(check_line("WRONG" if one.todo else "ok   ", name, width, one.text, one.todo))
    if wrong:
        say(f"stoker: {len(wrong)} of {len(found)} checks found something to do")
    return 1 if wrong else 0


def _report(path: str) -> int:
    """Write down what the drivers say, for somebody who has not got this machine."""
    import json
    import subprocess

    from stoker.cli.doctor.report import in_words
    from stoker.command_lines import driver_report
    from stoker.errors import Failed

    words = driver_report(_DRIVERS_HAVE_S)
    try:
        done = subprocess.run(words, capture_output=True, timeout=2 * _DRIVERS_HAVE_S)
        told = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        raise Failed("the drivers could not be asked", "see: stoker doctor") from None
    if path == "-":
        out(done.stdout.decode())
        return 0
    try:
        with open(path, "wb") as file:
            file.write(done.stdout)
    except OSError as error:
        raise Failed(f"{path} can't be written: {error.strerror}", "name another file") from None
    say(f"stoker: {path} is written: {in_words(told)}")
    return 0


VERB = Verb(
    "doctor",
    "check driver, GPUs, disk, versions, systemd, limits; say what to do about each",
    run=doctor,
    options=(
        JSON,
        Option(
            "report",
            "instead, write what the drivers of the GPUs say to this file, for a bug report: no "
            "names, no UUIDs, no commands; - for stdout",
            "FILE",
            files="file",
        ),
    ),
    examples=(
        ("stoker doctor", "one line per check"),
        ("stoker doctor --report gpus.json", "what the drivers say, to attach to a bug report"),
        ("stoker doctor --json | jq '.checks[] | select(.ok | not)'", "only what is wrong"),
    ),
    notes=(
        "Nothing is changed, but the daemon is started if it is not running. Exit code: 0 if all "
        "is well, 1 if anything is wrong.",
    ),
)
