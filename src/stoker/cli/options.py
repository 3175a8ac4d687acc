"""The tables that describe verbs, and the parser that follows them.

Every verb is a literal table: its options, its positional words, its examples. The same table
gives parsing, `--help`, shell completion and docs/reference.md, so that none of them can disagree.
A table parser of our own starts in less than a millisecond; the library ones take twenty and more.
"""

from __future__ import annotations

from stoker.errors import UsageError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from stoker.api.job_option import JobOption

Args = dict[str, "Any"]  # the values of a verb's options and words
Json = dict[str, "Any"]  # an object of JSON, as the daemon is told it and tells it


class Option:
    """An option: a flag if it has no `metavar`, else one that takes a value."""

    def __init__(
        self,
        name: str,
        help: str,
        metavar: str = "",
        convert: Callable[[str], Any] = str,
        *,
        short: str = "",
        repeat: bool = False,
        many: bool = False,
        choices: tuple[str, ...] = (),
        files: str = "",
        dashes: bool = False,
        group: str = "",
        undone_by_no: bool = False,
    ) -> None:
        self.name = name
        self.key = name.replace("-", "_")
        self.undone_by_no = undone_by_no  # --no-NAME is understood, where it is not a row itself
        self.group = group  # the heading under which help shows it
        self.help = help
        self.metavar = metavar
        self.convert = convert
        self.short = short
        self.repeat = repeat
        self.many = many  # takes all words up to the next option, as a list
        self.choices = choices  # for shell completion
        self.files = files  # "file" or "dir": what a shell should offer
        self.dashes = dashes  # its value may begin with --: it is options of another program


if TYPE_CHECKING:
    AnyOption = Option | JobOption  # The options of a job are taken from their table as they are.
    Options = Sequence[AnyOption]
    ByFlag = dict[str, AnyOption]


class Positional:
    """The words of a verb that are not options."""

    def __init__(
        self,
        metavar: str,
        help: str,
        convert: Callable[[str], Any] = str,
        *,
        many: bool = False,
        optional: bool = False,
        choices: tuple[str, ...] = (),
        dashes: bool = False,
    ) -> None:
        self.metavar = metavar
        self.dashes = dashes  # it may begin with --, as options of another program do
        self.key = metavar.lower()
        self.help = help
        self.convert = convert
        self.many = many
        self.optional = optional
        self.choices = choices


class Verb:
    """A verb: one that does something (`run`), a family of such (`verbs`), or both."""

    def __init__(
        self,
        name: str,
        summary: str,
        *,
        run: Callable[[Args], int | None] | None = None,
        options: Options | Callable[[], Options] = (),
        positionals: Sequence[Positional] = (),
        command: str = "",
        examples: Sequence[tuple[str, str]],
        notes: Sequence[str] = (),
        verbs: Sequence[Verb] = (),
        default: str = "",
        excused_by: str = "",
    ) -> None:
        self.name = name  # all of its words, "gpus drain"
        self.summary = summary
        self.run = run  # gives the exit code; None is 0
        self._options = options  # or what gives them: those of a job are many, and few are named
        self.positionals = positionals
        self.command = command  # "", "required" or "optional": what comes after `--`
        self.examples = examples  # (command line, what it does)
        self.notes = notes
        self.verbs = verbs
        self.members = {member.name.rpartition(" ")[2]: member for member in verbs}
        self.excused_by = excused_by  # the variable with which its errors are told, and end nothing
        self.default = default  # the member of the family that is meant if none is named

    @property
    def options(self) -> Options:
        """Its options."""
        if callable(self._options):
            self._options = self._options()
        return self._options


JSON = Option("json", "print JSON with a schema version instead of text")


def print_json(answer: dict[str, Any]) -> None:
    """Print what `--json` asked for."""
    from stoker.api.jsonline import dumps
    from stoker.text.terminal import out

    out(dumps({"schema": 1, **answer}) + "\n")


def tell(args: Args, answer: Json, words: str) -> None:
    """What was done: as JSON if that was asked for, else in words on stderr."""
    from stoker.text.terminal import say

    if args["json"]:
        print_json(answer)
    else:
        say(words)


def choose(verb: Verb, words: list[str]) -> tuple[Verb, list[str]]:
    """The member of a verb's family that is meant, and the words that are left for it."""
    while verb.verbs:
        word = words[0] if words else ""
        if word and not word.startswith("-"):
            if word not in verb.members:
                if verb.run is not None:
                    return verb, words
                what = f"stoker {verb.name}: there is no {quoted(word)}"
                raise _unknown(what, word, verb.members, verb)
            verb, words = verb.members[word], words[1:]
        elif word in ("-h", "--help") or not verb.default:
            return verb, words  # The verb's own work, or its help.
        else:
            verb = verb.members[verb.default]
    return verb, words


def parse(verb: Verb, words: list[str]) -> Args | None:
    """The values of a verb's options and positionals by key; None if help is asked for."""
    by_flag: ByFlag = {}
    args: Args = {}
    first = words[0] if words else "--"
    # A line that begins with its command has no options, so that nothing need be known of them:
    # the verb asks for theirs by `args.get`.
    if not verb.command or verb.positionals or (first != "--" and first.startswith("-")):
        by_flag = _by_flag(verb)
        for option in by_flag.values():
            args[option.key] = [] if option.repeat else None if option.metavar else False
    loose: list[str] = []
    args["command"] = None
    queue = words[::-1]
    while queue:
        word = queue.pop()
        if word == "--":
            rest = queue[::-1]
            if verb.command:
                args["command"] = rest
            else:
                loose += rest
            break
        if word in ("-h", "--help"):
            return None
        if word.startswith("--") and not _is_loose(verb, by_flag, word, len(loose)):
            _take_long(verb, by_flag, word, queue, args)
        elif _is_short(verb, word, len(loose)):
            _take_short(verb, by_flag, word, queue, args)
        elif verb.command and not verb.positionals:
            args["command"] = _bare_command(verb, [word, *queue[::-1]])
            break
        else:
            loose.append(word)
    _take_positionals(verb, loose, args)
    if verb.command == "required" and not args["command"]:
        raise UsageError("no command was given", f"e.g. {verb.examples[0][0]}")
    return args


def flags_of(option: AnyOption) -> list[str]:
    """How it can be written."""
    return [f"--{option.name}", *([f"-{option.short}"] if option.short else [])]


def _by_flag(verb: Verb) -> ByFlag:
    found: ByFlag = {}
    for option in verb.options:
        found[f"--{option.name}"] = option
        if option.short:
            found[f"-{option.short}"] = option
    return found


def _bare_command(verb: Verb, words: list[str]) -> list[str]:
    """The command of a line without `--` in front of it: everything from its first word on."""
    if "--" in words:
        # It may be a slip (`add big -- python x`) or a command's own `--`: the user has to say.
        raise UsageError(
            f"{quoted(words[0])} is not an option, and -- comes after it",
            "put -- in front of the whole command, and options before it",
        )
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    theirs = [flag for flag in flags if flag in _by_flag(verb)] if flags else []
    if theirs:
        from stoker.text.terminal import say

        # A program may well have an option --name of its own; only the user knows.
        say(
            f"stoker: {', '.join(dict.fromkeys(theirs))} after {quoted(words[0])} "
            f"{'are options' if len(set(theirs)) > 1 else 'is an option'} of the command, not of "
            "Stoker (put -- in front of the command, and this is not said)"
        )
    return words


def _is_short(verb: Verb, word: str, place: int) -> bool:
    """Whether a word is options of one letter; -10 may be the value of a positional."""
    if not word.startswith("-") or len(word) < 2 or word.startswith("--"):
        return False
    return not (word[1:].isdecimal() and _is_loose(verb, {}, word, place))


def _is_loose(verb: Verb, by_flag: ByFlag, word: str, place: int) -> bool:
    """Whether a word is the value of a positional although it looks like an option."""
    known = word.partition("=")[0] in by_flag
    return not known and place < len(verb.positionals) and verb.positionals[place].dashes


def _take_long(verb: Verb, by_flag: ByFlag, word: str, queue: list[str], args: Args) -> None:
    flag, equals, value = word.partition("=")
    # Some of the older tools write their options with underscores.
    option = by_flag.get(flag) or by_flag.get(flag.replace("_", "-"))
    if option is None:
        undone = by_flag.get(f"--{flag.removeprefix('--no-')}")
        if undone is not None and undone.undone_by_no and not equals:
            args[f"no_{undone.key}"] = True
            return
        raise _unknown(f"unknown option {quoted(flag)}", flag, by_flag, verb)
    if not option.metavar:
        if equals:
            raise UsageError(f"{flag} takes no value", f"write {flag} alone")
        args[option.key] = True
        return
    if not equals:
        value = _next_value(flag, option, queue)
    _store(option, flag, value, queue, args)


def _take_short(verb: Verb, by_flag: ByFlag, word: str, queue: list[str], args: Args) -> None:
    """`-f`, `-n 20`, `-n20`, `-fn20`."""
    letters = word[1:]
    while letters:
        flag, letters = "-" + letters[0], letters[1:]
        option = by_flag.get(flag)
        if option is None:
            if flag == "-h":
                raise UsageError(f"{quoted(word)} mixes -h with others", "write -h alone")
            raise _unknown(f"unknown option {quoted(word)}", word, by_flag, verb)
        if option.metavar:
            value = letters.removeprefix("=") if letters else _next_value(flag, option, queue)
            _store(option, flag, value, queue, args)
            return
        args[option.key] = True


def _next_value(flag: str, option: AnyOption, queue: list[str]) -> str:
    if not queue or (queue[-1].startswith("--") and (not option.dashes or queue[-1] == "--")):
        found = f" (a value that begins with -- is written {flag}=...)" if queue else ""
        raise UsageError(f"{flag} needs a value{found}", f"write {flag} {option.metavar}")
    return queue.pop()


def _store(option: AnyOption, flag: str, text: str, queue: list[str], args: Args) -> None:
    value = _converted(option.convert, text, flag)
    if option.many:
        value = [value]
        while queue and not _is_option(queue[-1]):
            value.append(_converted(option.convert, queue.pop(), flag))
    if option.repeat:
        args[option.key].append(value)
    elif isinstance(value, list) and isinstance(args[option.key], list):
        # `--after 7 --after 8` is `--after 7,8`. Of a list of ids each counts once; words for
        # another program are left as they are.
        value = args[option.key] + value
        args[option.key] = value if option.dashes else list(dict.fromkeys(value))
    else:
        args[option.key] = value


def _is_option(word: str) -> bool:
    """Whether a word ends a list of values; a negative number does not."""
    return word.startswith("-") and len(word) > 1 and not (word[1].isdigit() or word[1] == ".")


def _converted(convert: Callable[[str], Any], text: str, what: str) -> Any:
    from stoker.quantities import plain  # A line without values needs none of what is in there.

    try:
        return convert(plain(text))
    except UsageError as error:
        raise UsageError(f"{what}: {error.message}", error.hint) from None


def _take_positionals(verb: Verb, words: list[str], args: Args) -> None:
    rest = words
    for positional in verb.positionals:
        taken, rest = (rest, []) if positional.many else (rest[:1], rest[1:])
        values = [_converted(positional.convert, word, positional.metavar) for word in taken]
        args[positional.key] = values if positional.many else values[0] if values else None
        if not args[positional.key] and not positional.optional:
            raise UsageError(
                f"stoker {verb.name} needs {positional.metavar}", f"e.g. {verb.examples[0][0]}"
            )
    if rest:
        raise UsageError(f"{quoted(rest[0])} is one argument too many", _see(verb))


def _see(verb: Verb) -> str:
    return f"see `stoker {verb.name} --help`"


def _unknown(message: str, word: str, known: dict[str, Any], verb: Verb) -> UsageError:
    from stoker.text.suggest import meant

    if word[2:] in ("hold", "release", "cancel", "retry") and verb.name in ("edit", "add"):
        return UsageError(message, f"did you mean `stoker {word[2:]}`?")
    guess = meant(word, list(known))
    return UsageError(message, f"did you mean {guess}?" if guess else _see(verb))
