"""`stoker doctor`: what of this machine and this installation is right, and what to do."""

from __future__ import annotations

from stoker.cli.options import JSON, Args, Verb, print_json
from stoker.text.terminal import escaped, out, say


def doctor(args: Args) -> int:
    """Print one line per check; exit code 1 if anything is wrong."""
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
        word = "WRONG" if one.todo else "ok   "
        out(escaped(f"{word}  {name:<{width}}  {one.text}") + "\n")
        if one.todo:
            out(escaped(f"{'':7}{'':<{width}}  -> {one.todo}") + "\n")
    if wrong:
        say(f"stoker: {len(wrong)} of {len(found)} checks found something to do")
    return 1 if wrong else 0


VERB = Verb(
    "doctor",
    "check driver, GPUs, disk, versions, systemd, limits; say what to do about each",
    run=doctor,
    options=(JSON,),
    examples=(
        ("stoker doctor", "one line per check"),
        ("stoker doctor --json | jq '.checks[] | select(.ok | not)'", "only what is wrong"),
    ),
    notes=(
        "Nothing is changed, but the daemon is started if it is not running. Exit code: 0 if all "
        "is well, 1 if anything is wrong.",
    ),
)
