"""`stoker help`: the help of a verb, or of all."""

from __future__ import annotations

from stoker.cli.help import show_overview, show_verb
from stoker.cli.options import Args, Positional, Verb
from stoker.cli.verbs import VERBS, load
from stoker.errors import UsageError
from stoker.quantities import plain, quoted


def find_verb(words: list[str]) -> Verb:
    """The verb that some words name, such as ["gpus", "drain"]."""
    from stoker.text.suggest import meant

    if words[0] not in VERBS:
        guess = meant(words[0], list(VERBS))
        raise UsageError(
            f"there is no verb {quoted(words[0])}",
            f"did you mean `stoker help {guess}`?" if guess else "see `stoker help`",
        )
    verb = load(words[0])
    for word in words[1:]:
        if word not in verb.members:
            raise UsageError(f"there is no verb {quoted(verb.name + ' ' + word)}",
                             f"see `stoker help {verb.name}`")  # fmt: skip
        verb = verb.members[word]
    return verb


def help_(args: Args) -> None:
    """Show the help of a verb, or of all."""
    if args["verb"]:
        show_verb(find_verb(args["verb"]))
    else:
        show_overview()


VERB = Verb(
    "help",
    "show the help of one verb, or of all",
    run=help_,
    positionals=(Positional("VERB", "a verb such as add, or two words such as gpus drain", plain,
                            many=True, optional=True),),
    examples=(("stoker help add", "the options of add"), ("stoker help", "all verbs")),
)  # fmt: skip
