"""`stoker rm`: forget finished jobs and their logs."""

from stoker.cli.orders import order_verb

VERB = order_verb(
    "rm",
    "forget finished jobs, with their logs",
    op="remove",
    done="removed:",
    all_help="all finished jobs",
    examples=(
        ("stoker rm 3-9", "jobs 3 to 9, which must have ended"),
        ("stoker rm --all", "every finished job"),
    ),
    notes=("Files that were named with --out and --err are yours, and stay.",),
)
