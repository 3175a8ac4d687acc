"""docs/reference.md: every command and option is documented, as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.cli.help import flags, verb_help
from stoker.cli.options import Verb
from stoker.cli.reference import MARK, commands
from stoker.cli.verbs import SECTIONS, VERBS, all_verbs

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"
TEXT = PAGE.read_text(encoding="utf-8")


def section(verb: Verb) -> str:
    _, _, after = TEXT.partition(f" stoker {verb.name}\n")
    return after.split("\n## ")[0].split("\n### ")[0]


def test_the_page_is_what_is_made_from_the_tables() -> None:
    made = TEXT.partition(MARK)[2]
    assert made == commands(), "run: python -m stoker.cli.reference docs/reference.md"


@pytest.mark.parametrize("verb", all_verbs(), ids=lambda verb: verb.name)
def test_every_command_and_option_is_documented(verb: Verb) -> None:
    assert section(verb), f"stoker {verb.name} is not on the page"
    on_screen = verb_help(verb, colour=False)
    for option in verb.options:
        assert option.help
        assert f"`{flags(option)}`".replace("|", "\\|") in section(verb)
        assert flags(option) in on_screen
    for positional in verb.positionals:
        assert f"`{positional.metavar}`" in section(verb)
    for command, meaning in verb.examples:
        assert command in section(verb)
        assert command in on_screen
        assert meaning in on_screen


def test_every_verb_is_in_one_section_of_the_overview() -> None:
    shown = [name for _, names in SECTIONS for name in names]
    assert sorted(shown) == sorted(VERBS)


@pytest.mark.parametrize("verb", all_verbs(), ids=lambda verb: verb.name)
def test_the_words_of_help_are_of_one_kind(verb: Verb) -> None:
    assert verb.examples
    for text in (verb.summary, *(option.help for option in verb.options)):
        assert text == text.strip()
        assert not text.endswith(".") or text.endswith("...")
        assert "\n" not in text
    names = [option.name for option in verb.options]
    assert len(names) == len(set(names))
    shorts = [option.short for option in verb.options if option.short]
    assert len(shorts) == len(set(shorts))


@pytest.mark.parametrize("verb", all_verbs(), ids=lambda verb: verb.name)
def test_help_fits_into_80_columns(verb: Verb) -> None:
    examples = {line for line, _ in verb.examples}
    for line in verb_help(verb, colour=False).splitlines():
        assert len(line) <= 80 or line.strip() in examples or line.startswith("Usage:")
