"""Which jobs a verb is about: ids, ranges, `last`, names, a group, or all."""

from __future__ import annotations

from stoker.cli.options import Args, Json, Option, Positional
from stoker.errors import UsageError, quoted
from stoker.text.jobs import STATES


def job_ids(text: str, *, has_name: bool = True) -> list[str]:
    """Ids of jobs; a state or a name in their place gets told how to write that.

    `has_name`: the verb's --name says which jobs, and not what they are to be called.
    """
    from stoker import quantities  # Most lines have no value to be read.

    try:
        return quantities.job_ids(text)
    except UsageError as error:
        from stoker.text.suggest import synonym

        state = text.lower() if text.lower() in STATES else synonym(text, list(STATES))
        if state:
            error.hint = f"`stoker ls --state {state}` lists the jobs in that state"
        elif text.lower() == "all":
            error.hint = "did you mean --all?"
        elif not text.strip("0123456789-, "):
            pass
        elif has_name:
            error.hint += ", or --name for jobs with a name"
        else:
            named = f"`stoker ls --name {quoted(text)}`"
            error.hint += f" ({named} shows the ids of jobs with that name)"
        raise


def _label(text: str) -> str:
    from stoker.quantities import label

    return label(text)


IDS = Positional(
    "ID", "job ids: 7, a range 3-9, or last (the newest job)", job_ids, many=True, optional=True
)
NAME = Option(
    "name", "jobs with this name, or a pattern such as 'run-*'; may be repeated", "NAME",
    _label, repeat=True,
)  # fmt: skip
GROUP = Option("group", "the jobs of this group", "GROUP", _label)


def _filter_word(text: str) -> tuple[list[str], str]:
    """Ids, or else a word of a filter, which the daemon reads."""
    if text.lower() in ("last", "all") or not text.strip("0123456789-, "):
        return job_ids(text), ""
    return [], text


FILTER = Positional(
    "FILTER", "job ids (7, 3-9, last), or words to filter by: state:failed name:lr* resnet",
    _filter_word, many=True, optional=True,
)  # fmt: skip


def _states(text: str) -> list[str]:
    states = [word.strip().lower() for word in text.split(",")]
    for state in states:
        if state not in STATES:
            from stoker.text.suggest import meant

            guess = meant(state, list(STATES))
            raise UsageError(
                f"there is no state {quoted(state)}",
                f"did you mean {guess}?" if guess else f"states are {', '.join(STATES)}",
            )
    return states


STATE = Option(
    "state", "only jobs in these states", "STATE,...", _states, repeat=True, choices=STATES
)
IDS_NOTE = "IDs can be ranges (3-9), lists (3,5) and last, the newest job."


def selected(args: Args) -> Json:
    """The wire's Select for what was named; it may be empty."""
    select: Json = {}
    ids = [one for several in args["id"] for one in several]
    if ids:
        select["ids"] = ids
    if args.get("name"):
        select["names"] = args["name"]
    if args.get("group") is not None:
        select["group"] = args["group"]
    return select


def filtered(args: Args) -> Json:
    """The same for a verb that takes FILTER: ids, and words that narrow what is named."""
    select = selected({**args, "id": [ids for ids, _ in args["filter"]]})
    text = " ".join(word for _, word in args["filter"] if word)
    return select | {"text": text} if text else select


def states_said(args: Args) -> list[str]:
    """The states that the jobs must be in; none if any will do."""
    return [state for states in args.get("state") or () for state in states]


def required(args: Args, verb: str, *, all_of_them: bool = False) -> Json:
    """The same for a verb that must be told which jobs: to name none is a mistake.

    `--state` alone means all jobs in these states; `all_of_them`: so does what else was said.
    """
    select, states = selected(args), states_said(args)
    if args.get("all") and select:
        raise UsageError("--all means all jobs", "leave it out, or name no jobs")
    if args.get("all") or ((states or all_of_them) and not select):
        select["all"] = True
    if states:
        select["states"] = states
    if not select:
        raise UsageError("no job was named", f"e.g. stoker {verb} 7, or stoker {verb} last")
    return select
