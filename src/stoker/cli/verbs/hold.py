"""`stoker hold`: keep waiting jobs from starting."""

from stoker.cli.request_verb import request_verb

VERB = request_verb(
    "hold",
    "keep waiting jobs from starting until they are released",
    op="hold",
    done="held:",
    all_help="all waiting jobs",
    examples=(
        ("stoker hold 7", "job 7 stays in the queue and does not start"),
        ("stoker hold --name 'eval-*'", "all waiting jobs with a matching name"),
    ),
)
