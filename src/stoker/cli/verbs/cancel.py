"""`stoker cancel`: stop jobs, or take them off the queue."""

from stoker.cli.options import Option
from stoker.cli.request_verb import request_verb

VERB = request_verb(
    "cancel",
    "stop running jobs and remove waiting jobs from the queue",
    op="cancel",
    done="cancelling",
    all_help="all unfinished jobs",
    examples=(
        ("stoker cancel 7", "stop job 7 with all of its processes"),
        ("stoker cancel 3-9 last", "several jobs"),
        ("stoker cancel --group sweep", "a whole group"),
        (
            "stoker cancel --group sweep --state waiting",
            "only those of its jobs that wait to start",
        ),
    ),
    notes=(
        "A running job gets SIGTERM: the processes in the session of its main process. Others get "
        "it a moment after the last of these has ended. After the grace time (--grace), all that "
        "are left get SIGKILL. The job keeps its GPUs until its last process has ended.",
        "What `stoker adopt` has taken for a job is never stopped: end it yourself (`kill PID`), "
        "or let it go with --let-go.",
    ),
    own=Option("let-go", "adopted jobs only: free their GPUs and let their processes run"),
)
