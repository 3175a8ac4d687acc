"""`stoker retry`: queue finished jobs again."""

from stoker.cli.request_verb import request_verb

VERB = request_verb(
    "retry",
    "queue finished jobs again, as new attempts",
    op="retry",
    done="queued again:",
    all_help="all jobs that failed or were lost or skipped",
    examples=(
        ("stoker retry 7", "run job 7 again, with the same id"),
        ("stoker retry --group sweep", "the jobs of a group that did not succeed"),
        ("stoker retry --group sweep --state cancelled", "those that you cancelled"),
    ),
    notes=(
        "A job that you name by its id is queued again however it ended. A range, --name, --group "
        "and --all mean the jobs that did not succeed and that neither you cancelled nor a search "
        "stopped early (failed, lost, skipped), unless --state says otherwise.",
    ),
)
