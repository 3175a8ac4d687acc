"""From a command line to a search that learns, and how far one is in words."""

from __future__ import annotations

from shlex import quote

from stoker.api.client import Client
from stoker.cli.options import Args, print_json
from stoker.cli.sweeping.queueing import command_text
from stoker.errors import UsageError
from stoker.metrics.gathering import objectives_of
from stoker.search.spec import Objective
from stoker.search.starting import Planned, Wanted, begin, planned
from stoker.submission.sweeps import SweepSpec
from stoker.text.terminal import out, say


def search(args: Args, spec: SweepSpec) -> None:
    """Begin a search, go on with it, or show what it would be."""
    if args["rerun"] == "all":
        raise UsageError("a search runs no point again that succeeded", "write --rerun failed")
    wanted = objectives_of(args["minimize"], args["maximize"])
    objectives = [Objective(one.name, "max" if one.goal == "max" else "min") for one in wanted]
    asked = planned(
        spec,
        Wanted(
            objectives, args["sampler"], args["until"], args["for"], args["stop_early"],
            args["min_steps"],
        ),
        args["max_running"],
    )  # fmt: skip
    if asked.plan.ignored:
        say(f"stoker: ignored in {args['file']}: {', '.join(asked.plan.ignored)}")
    if args["dry_run"]:
        _show(asked, args["json"])
        return
    with Client() as client:
        begun = begin(client, asked, rerun=args["rerun"] is not None)
    name, known = asked.search.name, begun.trials
    if begun.anew:
        say(f"stoker: the points of {name} were removed: the search begins anew")
    if args["json"]:
        samples = asked.search.ends.samples
        counts = {"trials": known, "failed": begun.failed, "rerun": begun.rerun}
        print_json({"sweep": name, "samples": samples, **counts})
        return
    before = f", {known} made before" if known else ""
    before += f", {begun.failed} of them failed" if begun.failed else ""
    again = f"; {begun.rerun} run again" if begun.rerun else ""
    say(f"{asked.ends_in_words}{before}{again}; see `stoker sweep show {quote(name)}`")
    if begun.failed and args["rerun"] is None:
        say("add --rerun failed to run those again that failed")
    out(f"{name}\n")


def _show(asked: Planned, as_json: bool) -> None:
    [job] = asked.plan.jobs[:1]
    search = asked.search
    if as_json:
        points = [{"params": job["params"], "command": command_text(job)}]
        print_json({"sweep": search.name, "count": search.ends.samples, "points": points})
        return
    count = search.ends.samples
    many = "points until it ends" if count is None else f"up to {count} point{'s' * (count != 1)}"
    out(f"{many}\n{command_text(job)}\n")
    say("and others like it, each chosen by the results of those before")
