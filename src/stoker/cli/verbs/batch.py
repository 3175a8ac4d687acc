"""`stoker batch`: queue all jobs of a CSV, YAML or JSON file, and see them through."""

from __future__ import annotations

import gc
import os

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.jobspec import job_options, values_said
from stoker.cli.options import JSON, Args, Option, Positional, Verb, print_json
from stoker.errors import UsageError
from stoker.text.terminal import out, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.submission.batches import PlannedJob

# Where the priority scheduler looks if it is told nothing.
_USUAL_CSV = os.path.join("scheduler_files", "commands_1.csv")
INTERRUPTED = 130


def _header(text: str) -> int | None:
    return None if text.lower() == "none" else quantities.whole_number(text, 0, 1_000_000, "row")


def batch(args: Args) -> int:
    """Queue the jobs of a file, and wait for them unless --no-wait is given."""
    # A long file makes much that stays, and hardly any garbage that would have to be looked for.
    gc.set_threshold(100_000, 50, 50)
    from stoker.batch.reading import Reading, read_entries
    from stoker.submission.batches import COLUMNS, Translator, new_group
    from stoker.submission.profiling import profiled
    from stoker.submission.surroundings import surroundings

    path = _path(args)
    source = os.path.basename(path)
    how = Reading(args["csv"] is not None, args["header"], args["template"], args["num"])
    entries, size = read_entries(path, source, how, COLUMNS)
    if not entries and size is not None:
        say(f"stoker: {source} has no rows, so there is nothing to do")
        return 0
    if not entries:
        raise UsageError(f"{source} has no jobs in it", "write one row per job")
    group = args["group"] or new_group(source)
    common = surroundings()
    translator = Translator(source, values_said(args), common["cwd"], common["env"], group)
    jobs = translator.planned(entries, size)
    with Client() as client:
        client.connect()
        jobs, short = profiled(client, source, jobs, args["profile_epochs"], common["cwd"])
        return _queue_and_follow(client, args, source, jobs, short, common)


def _path(args: Args) -> str:
    named = [name for name in (args["csv"], args["file"]) if name is not None]
    if len(named) > 1:
        raise UsageError("two files were named", "name one: --csv FILE, or FILE alone")
    if named:
        return str(named[0])
    if os.path.isfile(_USUAL_CSV):
        return _USUAL_CSV
    raise UsageError(
        f"no file was named, and there is no {_USUAL_CSV}", "e.g. stoker batch --csv commands.csv"
    )


def _queue_and_follow(
    client: Client,
    args: Args,
    source: str,
    jobs: list[PlannedJob],
    short: int,
    common: dict[str, Any],
) -> int:
    """Queue the jobs, of which some are short runs that are not told of, and see them through."""
    from stoker.cli.following import Following, named_groups, only_group
    from stoker.submission.batch_queueing import number

    number(client, jobs, short, common["cwd"])
    # A row may name another group than its file's.
    groups: list[str] = list(dict.fromkeys(job.fields["group"] for job in jobs))
    if args["no_wait"]:
        return _print_ids(client, args, _queue(client, jobs, short, source, common), groups)
    with Following(groups) as following:
        try:
            ids = _queue(client, jobs, short, source, common)
            client.close()
            say(f"stoker: {_jobs(len(ids))} queued in the {named_groups(groups)}")
            ended = following.to_the_end(ids, [job.title for job in jobs[short:]])
        except KeyboardInterrupt:
            group = only_group(groups) or "GROUP"
            say(
                f"stoker: queued jobs continue; `stoker wait --group {group}` waits for them "
                f"again, `stoker cancel --group {group}` cancels them"
            )
            return INTERRUPTED
    following.summary()
    following.last_words()
    if args["json"]:
        lines = [job.entry.line for job in jobs[short:]]
        told = [{**job, "line": line} for job, line in zip(ended, lines, strict=True)]
        print_json({"group": only_group(groups), "ids": ids, "jobs": told})
    return int(any(job["state"] != "succeeded" for job in ended))


def _queue(
    client: Client, jobs: list[PlannedJob], short: int, source: str, common: dict[str, Any]
) -> list[int]:
    """Queue all of them; the ids of those that are not short runs."""
    from stoker.submission.batch_queueing import queue

    ids = queue(client, jobs, source, common)
    if short:
        kinds = "1 kind of job" if short == 1 else f"{short} kinds of jobs"
        say(f"stoker: first running {kinds} briefly to measure the GPU memory")
    return ids[short:]


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _print_ids(client: Client, args: Args, ids: list[int], groups: list[str]) -> int:
    from stoker.cli.following import named_groups, only_group
    from stoker.cli.outlook import tell

    if args["json"]:
        print_json({"group": only_group(groups), "ids": ids})
    else:
        out("".join(f"{job_id}\n" for job_id in ids))
        say(f"stoker: {_jobs(len(ids))} queued in the {named_groups(groups)}")
    tell(client, ids, args)
    return 0


VERB = Verb(
    "batch",
    "queue all jobs of a CSV, YAML or JSON-lines file, and wait for them",
    run=batch,
    positionals=(
        Positional("FILE", "a .csv, .yaml, .json or .jsonl file with the jobs", optional=True),
    ),
    options=(
        Option("csv", "read this file as CSV, whatever its name", "FILE", short="c",
               files="file"),
        Option("num", "run the file in batches of N rows (default for a CSV with Epochs: 20)",
               "N", quantities.number_within(1, 1_000_000, "size of a batch"), short="n"),
        Option("header", "the CSV's header row, counted from 0; None if it has no header",
               "ROW", lambda text: (_header(text),)),
        Option("template", "the command for every row, with {column} for the value of a cell",
               "TEXT"),
        Option("profile-epochs", "first run each kind of job for N epochs to measure its GPU "
               "memory (default for a CSV with Epochs: 2; 0: don't)", "N",
               quantities.number_within(0, 1_000_000, "number of epochs")),
        Option("no-wait", "queue the jobs, print their ids and return"),
        *job_options("batch"),
        JSON,
    ),
    examples=(
        ("stoker batch --csv commands.csv --num 20", "in batches of 20, by priority"),
        ("stoker batch runs.csv --template 'python train.py --lr {lr}'", "one job per row"),
        ("stoker batch jobs.yaml --no-wait", "a list with name, out, command and any option"),
    ),
    notes=(
        "A CSV with the columns Directory, Executable, Filename, Epochs, Priority runs "
        "`EXECUTABLE FILENAME --epochs=E --id=N` in Directory, lower priorities first within a "
        "batch. A batch starts when the previous one has ended. Executable -1 is the Python "
        "interpreter that runs Stoker. N is never used twice, also across runs.",
        "Any other file has a command for each job (or use --template), and columns or keys "
        "named like the options of `stoker add`: gpus, mem, priority, name, cwd, out, env "
        "(K=V;K=V), after (ids, or names in the same file). Options given here apply to all "
        "jobs; values in the file override them. Other columns are kept as the job's "
        "parameters.",
        "A row with an error is reported with its line number, and nothing is queued unless all "
        "rows are valid.",
        "--profile-epochs runs the command of each kind with a smaller --epochs, one kind after "
        "the other, each alone on a GPU. Jobs without --mem then reserve the memory that was "
        "measured. Kinds that are known already (`stoker profiles`) are not run. The GPUs must "
        "be measured by a driver.",
        "The command waits until all jobs have ended; the exit code is 1 if any did not "
        "succeed. Ctrl-C stops the waiting, not the jobs.",
    ),
)  # fmt: skip
