"""`stoker rm`: forget finished jobs and their logs."""

from stoker.cli.request_verb import request_verb

VERB = request_verb(
    "rm",
    "delete finished jobs and their logs",
    op="remove",
    done="removed:",
    all_help="all finished jobs",
    examples=(
        ("stoker rm 3-9", "jobs 3 to 9, which must be finished"),
        ("stoker rm --all", "every finished job"),
        ("stoker rm --state failed,lost", "all jobs that failed or were lost"),
    ),
    notes=("Files named with --out and --err are yours and are kept.",),
)
