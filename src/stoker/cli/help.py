"""Help on the terminal, made from the verbs' tables."""

from __future__ import annotations

import textwrap

from stoker.api.job_options import GROUPS
from stoker.cli.options import JSON, Option, Positional, Verb
from stoker.cli.verbs import SECTIONS, load
from stoker.text.terminal import out, painted, terminal_width, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.cli.options import AnyOption, Options

_HELP = Option("help", "print this help", short="h")


def show_overview() -> None:
    """Help on all verbs."""
    colour = wants_colour()
    lines = [
        "Stoker keeps GPUs fed: it runs each queued command as soon as there is room.",
        "",
        "  stoker add --gpus 2 -- python train.py --lr 0.1    queue a job",
        "  stoker                                             GPUs and jobs at a glance",
        "  stoker logs -f 7                                   follow a job's output",
        "  stoker run -- python train.py                      in this terminal",
    ]
    for section, names in SECTIONS:
        lines += ["", painted(section, "bold", colour)]
        for name in names:
            lines += _described(f"  {name}", load(name).summary, 14)
    lines += [
        "",
        "`stoker VERB --help` shows the options and examples of a verb.",
    ]
    out("\n".join(lines) + "\n")


def show_verb(verb: Verb) -> None:
    """Help on one verb."""
    out(verb_help(verb, wants_colour()))


def usage(verb: Verb) -> str:
    """How a verb is written, in one line."""
    words = ["stoker", *verb.name.split()]
    if verb.run is None:
        members = "|".join(verb.members)
        words.append(f"[{members}]" if verb.default else members)
        return " ".join([*words, "..."])
    words.append("[OPTIONS]")
    words += [_placeholder(positional) for positional in verb.positionals]
    if verb.command:
        words.append("[--] COMMAND..." if verb.command == "required" else "[-- COMMAND...]")
    return " ".join(words)


def _placeholder(positional: Positional) -> str:
    word = positional.metavar + ("..." if positional.many else "")
    return f"[{word}]" if positional.optional else word


def flags(option: AnyOption) -> str:
    """How an option is written: "-n, --lines N"."""
    short = f"-{option.short}, " if option.short else ""
    return f"{short}--{option.name}" + (f" {option.metavar}" if option.metavar else "")


def verb_help(verb: Verb, colour: bool) -> str:
    """A verb's whole help."""
    lines = [f"{painted('Usage:', 'bold', colour)} {usage(verb)}", ""]
    lines += _wrapped(verb.summary[:1].upper() + verb.summary[1:] + ".", "")
    if verb.verbs:
        lines.append("")
        for name, member in verb.members.items():
            word = f"stoker {member.name}" if verb.run else name
            lines += _described(f"  {word}", member.summary, 22 if verb.run else 18)
    for positional in verb.positionals:
        lines += ["", *_described(f"  {positional.metavar}", positional.help, 22)]
    if verb.run is not None:
        for heading, options in grouped(verb.options):
            lines += ["", painted(f"{heading}:", "bold", colour)]
            for option in options:
                lines += _described(f"  {flags(option)}", option.help, 22)
    for note in verb.notes:
        lines += ["", *_wrapped(note, "")]
    lines += ["", painted("Examples:", "bold", colour)]
    for command, meaning in verb.examples:
        lines += [f"  {command}", painted(f"      {meaning}", "dim", colour)]
    return "\n".join(lines) + "\n"


def grouped(options: Options) -> list[tuple[str, list[AnyOption]]]:
    """The options under their headings: those of the verb itself first, the rare ones last."""
    own = [option for option in options if not option.group]
    if len(own) == len(options):
        return [("Options", [*own, _HELP])]
    headings: list[tuple[str, list[AnyOption]]]
    headings = [("Options", [option for option in own if option is not JSON])]
    headings += [(group, [one for one in options if one.group == group]) for group in GROUPS]
    headings.append(("Other", [*(one for one in own if one is JSON), _HELP]))
    return [(heading, some) for heading, some in headings if some]


def _described(left: str, text: str, indent: int) -> list[str]:
    wrapped = _wrapped(text, " " * indent)
    if len(left) + 2 > indent:
        return [left, *wrapped]
    return [left + wrapped[0][len(left) :], *wrapped[1:]]


def _wrapped(text: str, indent: str) -> list[str]:
    width = min(terminal_width() or 80, 100)
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
