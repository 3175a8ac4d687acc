"""`stoker suspend`: stop all processes of running jobs until they are resumed."""

from stoker.cli.request_verb import request_verb

VERB = request_verb(
    "suspend",
    "stop all processes of running jobs until they are resumed",
    op="suspend",
    done="suspended:",
    all_help="all running jobs",
    examples=(
        ("stoker suspend 7", "job 7 stands still where it is, and keeps its GPUs"),
        ("stoker resume 7", "it goes on"),
        ("stoker suspend --group sweep1", "all running jobs of a group"),
    ),
    notes=(
        "Its GPUs and their memory stay reserved, and its time limit and slice stand still. "
        "`stoker cancel` and the like work as always: the job goes on, so that it can heed its "
        "signal. Another attempt is not suspended. A program that counts the time itself, such as "
        "one that waits for an answer over a network, sees that time has passed.",
    ),
)
