"""`stoker release`: let held jobs start."""

from stoker.cli.request_verb import request_verb

VERB = request_verb(
    "release",
    "let held jobs start",
    op="release",
    done="released:",
    all_help="all held jobs",
    examples=(
        ("stoker release 7", "job 7 waits for its turn again"),
        ("stoker release --all", "every held job"),
    ),
)
