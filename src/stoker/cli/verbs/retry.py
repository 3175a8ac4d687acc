"""`stoker retry`: queue finished jobs again."""

from stoker.cli.request_verb import request_verb

VERB = request_verb(
    "retry",
    "queue finished jobs again, as new attempts",
    op="retry",
    done="queued again:",
    all_help="all jobs that failed or were lost, skipped or cancelled",
    examples=(
        ("stoker retry 7", "run job 7 again, with the same id"),
        ("stoker retry --group sweep", "all finished jobs of a group"),
    ),
)
