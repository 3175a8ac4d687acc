"""The part of docs/reference.md that is made from the verbs' tables.

`python -m stoker.cli.reference docs/reference.md` puts it into the page, below the part that is
written by hand. A test compares the page with what is made here, so that it never falls behind.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stoker.cli.help import flags, grouped, usage
from stoker.cli.options import Verb
from stoker.cli.verbs import all_verbs

MARK = "<!-- Made from the code: python -m stoker.cli.reference docs/reference.md -->\n"


def commands() -> str:
    """All commands in Markdown."""
    return "".join("\n" + _section(verb) for verb in all_verbs())


def _section(verb: Verb) -> str:
    level = "###" if " " in verb.name else "##"
    lines = [f"{level} stoker {verb.name}", "", "```text", usage(verb), "```", ""]
    lines.append(verb.summary[:1].upper() + verb.summary[1:] + ".")
    if verb.default:
        lines.append(f"`stoker {verb.name}` alone is `stoker {verb.name} {verb.default}`.")
    lines.append("")
    rows = [(f"`{positional.metavar}`", positional.help) for positional in verb.positionals]
    for _, options in grouped(verb.options):
        rows += [(f"`{flags(option)}`", option.help) for option in options if option.name != "help"]
    if rows:
        lines += ["| option | meaning |", "|---|---|"]
        lines += [f"| {_cell(left)} | {_cell(right)} |" for left, right in rows]
        lines.append("")
    for note in verb.notes:
        lines += [_prose(note), ""]
    width = max(len(command) for command, _ in verb.examples)
    examples = [f"{command:<{width}}  # {meaning}" for command, meaning in verb.examples]
    return "\n".join([*lines, "```bash", *examples, "```", ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _prose(text: str) -> str:
    """Text in which Markdown sees no markup that is not meant; code is left alone."""
    parts = text.split("`")
    parts[::2] = [part.replace("*", "\\*").replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def main() -> None:
    """Bring a page up to date."""
    page = Path(sys.argv[1])
    by_hand, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
    assert mark, f"{page} has no line that says where the commands begin"
    page.write_text(by_hand + mark + commands(), encoding="utf-8")


if __name__ == "__main__":
    main()
