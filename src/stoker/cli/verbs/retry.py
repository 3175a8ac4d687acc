"""`stoker retry`: queue finished jobs again."""

from stoker.cli.orders import order_verb

VERB = order_verb(
    "retry",
    "queue finished jobs again, as new attempts",
    op="retry",
    done="queued again:",
    all_help="all that failed, were lost, skipped or cancelled",
    examples=(
        ("stoker retry 7", "run job 7 once more, with the same id"),
        ("stoker retry --group sweep", "those of a group"),
    ),
)
