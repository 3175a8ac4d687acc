"""`stoker add`: queue a job and print its id."""

from __future__ import annotations

import sys

from stoker.api.client import Client
from stoker.cli.jobspec import BARE_COMMAND_NOTE, job_options, submission
from stoker.cli.options import JSON, Args, Verb, print_json
from stoker.submission.surroundings import submit


def add(args: Args) -> None:
    """Queue one job."""
    request = submission(args, "add")
    with Client() as client:
        job_id = submit(client, request)
        if args.get("json"):
            print_json({"ids": [job_id]})
        else:
            print(job_id)
        if sys.stdout is not None and sys.stdout.isatty():
            from stoker.cli.outlook import tell

            tell(client, [job_id], args)


VERB = Verb(
    "add",
    "queue a job and print its id",
    run=add,
    options=lambda: (*job_options("add"), JSON),
    command="required",
    examples=(
        ("stoker add --gpus 2 --name big -- python train.py --lr 0.1", "two GPUs, with a name"),
        ("stoker add --mem 8G -- 'cd runs && python eval.py > eval.txt'", "run by the shell"),
        (
            "stoker add --gpus 0 --after 7,8 -- python report.py",
            "no GPU; starts once jobs 7 and 8 have succeeded",
        ),
        ("stoker add --time-limit 2h --signal USR1@2m --retries 3 -- ./train.sh", "with a limit"),
    ),
    notes=(
        BARE_COMMAND_NOTE,
        "Only the id is printed on stdout: id=$(stoker add ...). On a terminal, stderr has what is "
        "known of its place in the line, its start and its run time.",
    ),
)
