"""`stoker pause`: start nothing new, in the whole queue or in a group."""

from stoker.cli.request_verb import pausing_verb

VERB = pausing_verb(
    "pause",
    "start no new jobs, in the whole queue or in one group",
    paused=True,
    examples=(
        ("stoker pause", "no new jobs start; running jobs continue"),
        ("stoker pause --group sweep", "pause only one group"),
    ),
)
