"""Every command in the prose and the tables of the pages is one that Stoker understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from docs.pages import PAGES, spans_of
from stoker.cli.options import choose, parse
from stoker.cli.verbs import VERBS, all_verbs, load
from stoker_home import StokerHome

NAMES = {"VERB --help", *(verb.name for verb in all_verbs())}


def words_of(span: str) -> Iterator[list[str]]:
    """The words of each `stoker` command in a span; dots and variables stand for anything.

    A verb alone (`stoker add`, `stoker sweep …`) is its name.
    """
    text = re.sub(r"…|\.\.\.|\$\w+|\bID\b", "7", span)
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        tokens = [*lexer, ";"]
    except ValueError as error:
        raise AssertionError(f"the shell does not understand {span}") from error
    words: list[str] = []
    for token in tokens:
        if set(token) <= set("();<>|&"):
            named = re.sub(" 7$", "", " ".join(words[1:])) in NAMES
            if words[:1] == ["stoker"] and not named:
                yield words[1:] or ["status"]
            words = []
        else:
            words.append(token)


def commands(page: str) -> list[list[str]]:
    return [words for span in spans_of(page) if "stoker" in span for words in words_of(span)]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_in_the_prose_of_a_page_is_understood(page: str) -> None:
    for verb, *words in commands(page):
        if verb in ("--version", "--help"):
            continue
        assert verb in VERBS, (page, verb, words)
        member, rest = choose(load(verb), words)
        try:
            parse(member, rest)
        except Exception as error:
            raise AssertionError(f"{page}: stoker {verb} {shlex.join(words)}: {error}") from error


def test_there_are_many_of_them() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 80


def test_every_setting_that_a_page_sets_can_be_set_so(stoker: StokerHome) -> None:
    found = {
        tuple(words[2:])
        for page in PAGES
        for words in commands(page)
        if words[:2] == ["config", "set"]
    }
    assert len(found) > 10
    for name, value in sorted(found):
        stoker.call("config_set", name=name, value=value)
