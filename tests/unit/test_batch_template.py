"""Templates: whatever a cell contains, the shell takes it as text."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stoker.batch.template import parse_template
from stoker.errors import UsageError


def filled(text: str, **cells: str) -> str:
    return parse_template(text, list(cells)).filled(cells)


def words_of(command: str) -> list[str]:
    """The words that a shell makes of a command, as its program sees them."""
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True, timeout=60)
    return done.stdout.decode().split("\0")[:-1]


def test_a_plain_value_stands_as_it_is() -> None:
    assert filled("train --lr {lr} --bs {bs}", lr="0.1", bs="8") == "train --lr 0.1 --bs 8"


def test_double_braces_are_plain_braces() -> None:
    assert filled("awk '{{print $1}}' {f}", f="a.txt") == "awk '{print $1}' a.txt"


def test_names_are_found_in_any_case_and_with_spaces() -> None:
    template = parse_template("train {learning rate} {LR}", ["Learning Rate", "lr"])
    assert template.filled({"Learning Rate": "1", "lr": "2"}) == "train 1 2"


@pytest.mark.parametrize("text", ["train {x}", "train {", "train {lr"])
def test_what_is_no_column_is_refused_with_the_columns_that_there_are(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_template(text, ["lr", "bs"])
    assert "the columns are lr, bs" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        'echo "$(date {x})"',
        "echo `date {x}`",
        'echo "`date {x}`"',
        "date # {x}",
        "cat <<E\n{x}\nE",
        "echo $'a {x}'",
    ],
)
def test_a_place_where_no_value_is_safe_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_template(text, ["x"])


def test_a_command_substitution_outside_of_quotes_is_fine() -> None:
    assert words_of(filled("printf '%s\\0' $(printf %s {x})", x="$HOME;'`")) == ["$HOME;'`"]


def test_an_empty_cell_is_an_empty_word() -> None:
    assert words_of(filled("printf '%s\\0' a {x} b", x="")) == ["a", "", "b"]


@settings(max_examples=60)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
@example("$(touch x)")
@example("`id`")
@example("'; id; '")
@example('"; id; "')
@example("\\")
@example("a\nb")
@example("*")
@example("{x}")
def test_no_value_ever_becomes_shell(value: str) -> None:
    for text in (
        "printf '%s\\0' {x}",
        "printf '%s\\0' \"{x}\"",
        "printf '%s\\0' '{x}'",
        "printf '%s\\0' \\\\{x}",
        "printf '%s\\0' `true`\"$(true)\"{x}",
    ):
        (word,) = words_of(filled(text, x=value))
        assert word.removeprefix("\\" if "\\\\{" in text else "") == value
