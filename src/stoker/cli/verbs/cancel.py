"""`stoker cancel`: stop jobs, or take them off the queue."""

from stoker.cli.orders import order_verb

VERB = order_verb(
    "cancel",
    "stop jobs that run, and take waiting ones off the queue",
    op="cancel",
    done="cancelling",
    all_help="all jobs that are not finished",
    examples=(
        ("stoker cancel 7", "stop job 7 with all of its processes"),
        ("stoker cancel 3-9 last", "several"),
        ("stoker cancel --group sweep", "a whole group"),
    ),
    notes=(
        "A job that runs is sent SIGTERM and, after its grace time (--grace), SIGKILL. It keeps "
        "its GPUs until its last process is gone.",
    ),
)
