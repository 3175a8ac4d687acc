"""`stoker resume`: undo pause: let jobs start again."""

from stoker.cli.request_verb import pausing_verb

VERB = pausing_verb(
    "resume",
    "undo pause: let jobs start again",
    paused=False,
    examples=(
        ("stoker resume", "resume the queue"),
        ("stoker resume --group sweep", "resume one group"),
    ),
)
