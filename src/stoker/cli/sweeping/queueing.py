"""From a command line to queued points: nothing is queued unless every point is good."""

from __future__ import annotations

import gc
import os
import shlex
from typing import Any

from stoker.api.client import Client
from stoker.cli.jobspec import submission
from stoker.cli.options import Args, print_json
from stoker.cli.outlook import tell
from stoker.errors import UsageError
from stoker.submission.sweeps import Plan, Queued, SweepSpec, plan, queue
from stoker.sweep import notation
from stoker.sweep.points import Choosing, Repeat, Space
from stoker.text.terminal import escaped, out, say

_SHOWN_IN_A_DRY_RUN = 10
_MOST_NAMED = 5  # other sweeps that have some of the points


def sweep(args: Args) -> None:
    """Queue a sweep's points, or show what they would be."""
    # All that is made here is needed to the end; to look for garbage would take a fifth of it.
    gc.disable()
    if args["minimize"] or args["maximize"] or _is_search_file(args["file"]):
        from stoker.cli.sweeping.searching import search  # Few sweeps need it, and it is slow.

        search(args, sweep_spec(args))
        return
    for option in ("sampler", "until", "for", "stop-early", "min-steps"):
        if args[option.replace("-", "_")] is not None:
            raise UsageError(
                f"--{option} is about a search", "say of what: --minimize or --maximize METRIC"
            )
    plan = _planned(args)
    if args["dry_run"]:
        _show_plan(plan, args["json"])
        return
    with Client() as client:
        queued = queue(client, plan, args["rerun"], args["max_running"])
        _tell(plan, queued, args["json"])
        tell(client, queued.ids, args)


# ---------------------------------------------------------------------- what is to be queued


def _is_search_file(path: str | None) -> bool:
    if path is None:
        return False
    from stoker.sweep import sweepfile  # It is slow to import, and most sweeps need no file.

    return sweepfile.read(path, os.environ).is_search


def sweep_spec(args: Args) -> SweepSpec:
    """The sweep as it was asked for."""
    axes = [notation.parsed(word) for word in args["space"]]
    axes += [notation.of_words(words) for words in args["parameter"]]
    return SweepSpec(
        Space(tuple(axes), Repeat(*args["repeat"]) if args["repeat"] else None),
        Choosing(args["samples"], None, args["shuffle"], args["seed"] or 0, args["where"]),
        args["command"] or (),
        args["style"] or "flags",
        args["name"],
        _request(args),
        {key: args[key] for key in ("out", "err") if args[key] is not None},
        args["file"],
    )


def _planned(args: Args) -> Plan:
    made = plan(sweep_spec(args))
    if made.ignored:
        say(f"stoker: ignored in {args['file']}: {', '.join(made.ignored)}")
    return made


def _request(args: Args) -> dict[str, Any]:
    """The submission that all points share; what differs from point to point is left out."""
    left_out = dict.fromkeys(("command", "name", "group", "out", "err"))
    request = submission({**args, **left_out}, "sweep")
    del request["token"]
    return request


# ---------------------------------------------------------------------- what is said


def _counted(count: int, word: str = "point") -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")


def command_text(job: dict[str, Any]) -> str:
    """A point's command as it is shown."""
    return escaped(job["shell"]) if "shell" in job else escaped(shlex.join(job["argv"]))


def _warn_of_few(plan: Plan) -> None:
    if plan.asked_for is not None and len(plan.jobs) < plan.asked_for:
        say(f"stoker: there are only {_counted(len(plan.jobs))}, not {plan.asked_for}")


def _show_plan(plan: Plan, as_json: bool) -> None:
    first = plan.jobs[:_SHOWN_IN_A_DRY_RUN]
    _warn_of_few(plan)
    if as_json:
        points = [{"params": job["params"], "command": command_text(job)} for job in first]
        print_json({"sweep": plan.name, "count": len(plan.jobs), "points": points})
        return
    out(f"{_counted(len(plan.jobs))}\n")
    for job in first:
        out(f"{command_text(job)}\n")
    more = len(plan.jobs) - len(first)
    if more:
        say(f"and {more} more")


def _tell(plan: Plan, queued: Queued, as_json: bool) -> None:
    _warn_of_few(plan)
    if as_json:
        answer = {
            "sweep": plan.name,
            "count": len(plan.jobs),
            "ids": queued.ids,
            "succeeded_before": queued.done,
            "unfinished": queued.unfinished,
            "elsewhere": dict(queued.elsewhere),
        }
        print_json(answer)
        return
    left_out = {
        "succeeded before": queued.done,
        "queued or running already": queued.unfinished,
        "not tried yet": queued.passed_over,
    }
    parts = [f"{len(queued.ids)} queued"]
    parts += [f"{count} {why}" for why, count in left_out.items() if count]
    elsewhere = queued.elsewhere
    there = len(queued.ids) + queued.done + queued.unfinished - elsewhere.total()
    see = f"; see `stoker sweep show {shlex.quote(plan.name)}`" if there else ""
    say(f"{_counted(len(plan.jobs))}: {', '.join(parts)}{see}")
    for name, count in elsewhere.most_common(_MOST_NAMED):
        others = f"{count} of them {'is' if count == 1 else 'are'} in {name}"
        say(f"{others}, and in its results: `stoker results {shlex.quote(name)}`")
    out(f"{plan.name}\n")
