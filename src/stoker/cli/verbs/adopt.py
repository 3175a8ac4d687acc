"""`stoker adopt`: count the GPUs of a process that runs already as taken, until it ends."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Option, Positional, Verb, print_json
from stoker.text.terminal import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def adopt(args: Args) -> None:
    """Take the process for a job, and print the job's id."""
    from stoker.cli.jobspec import values_said
    from stoker.submission.adopting import adoption

    fields = adoption(args["pid"], values_said(args))
    with Client() as client:
        answer = client.call("adopt", **fields)
    if args["json"]:
        print_json({name: answer[name] for name in ("id", "gpus", "process")})
        return
    print(answer["id"])
    gpus = f"GPU{'s' if len(answer['gpus']) > 1 else ''} {', '.join(answer['gpus'])}"
    say(f"stoker: job {answer['id']} is process {answer['process']} on {gpus}")


def _options() -> Sequence[Option]:
    from stoker.cli.jobspec import option_of
    from stoker.submission.adopting import ADOPTED_OPTIONS

    by_name = {option.name: option_of(option) for option in ADOPTED_OPTIONS}
    for option in by_name.values():
        option.group = ""
    on = by_name["on"]
    on.help = "the GPUs that it uses (default: those on which the driver shows it)"
    mem = by_name["mem"]
    mem.help = (
        "the GPU memory that it takes of each GPU, which jobs may then share (default: all of it); "
        "auto: as much as is measured"
    )
    return (*by_name.values(), JSON)


VERB = Verb(
    "adopt",
    "count the GPUs of a process that runs already as taken until it ends",
    run=adopt,
    positionals=(Positional("PID", "the process"),),
    options=_options,
    examples=(
        ("stoker adopt 4711", "a training that you started by hand, on the GPUs that it uses"),
        ("stoker adopt 4711 --on 0,1", "say which GPUs, where no driver tells"),
        ("stoker adopt 4711 --mem 8G", "it takes 8 GiB; jobs with --mem may share its GPU"),
    ),
    notes=(
        "The process becomes a job that runs. It is refused if it does not fit beside the jobs on "
        "its GPUs. Stoker never signals it. When it has ended, the job is lost: its exit code is "
        "known to the process that started it alone. Jobs with --after-any then start; jobs with "
        "--after are skipped.",
        "`stoker cancel ID --let-go` ends the job and lets the process run.",
        "Only the id is printed on stdout.",
    ),
)
