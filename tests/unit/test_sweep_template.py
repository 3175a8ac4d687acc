"""Commands filled in for a point: words, shell strings, hostile values, appended parameters."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.errors import UsageError
from stoker.sweep import identity
from stoker.sweep.shelltext import in_quotes
from stoker.sweep.template import Style, Template, Text
from stoker.sweep.values import Point, Value, from_data, from_text, hydra_text

# Letters that mean something to some shell come up often.
HOSTILE = st.text(
    st.sampled_from(list("ab1 '\"\\$`!*?~#&|;<>(){}[]=\n\t-%^,"))
    | st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    max_size=20,
)


def point_of(**values: str) -> Point:
    return {name: from_text(text) for name, text in values.items()}


def filled(words: list[str], style: Style = "flags", **values: str) -> Any:
    point = point_of(**values)
    fields = Template(words, list(point), style).filled(point, "p0")
    return fields.get("argv", fields.get("shell"))


def test_places_are_filled_within_words() -> None:
    words = ["python", "train.py", "--lr={lr}", "run_{lr}_{bs}", "{bs}"]
    assert filled(words, lr="1e-3", bs="16") == [
        "python", "train.py", "--lr=1e-3", "run_1e-3_16", "16",
    ]  # fmt: skip


def test_a_parameter_without_a_place_is_appended() -> None:
    assert filled(["python", "t.py", "{lr}"], lr="0.1", bs="16", opt="sgd") == [
        "python", "t.py", "0.1", "--bs", "16", "--opt", "sgd",
    ]  # fmt: skip
    assert (
        filled(["python t.py {lr}"], lr="0.1", note="it's") == r"python t.py 0.1 --note 'it'\''s'"
    )


def test_hydra_style_appends_name_equals_value() -> None:
    assert filled(["python", "t.py"], "hydra", lr="0.1", note="a b", amp="TRUE") == [
        "python", "t.py", "lr=0.1", "note='a b'", "amp=true",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("adam", "adam"), ("a,b", "'a,b'"), ("it's", r"'it\'s'"), ("x\\", r"'x\\'"), ("", "''"),
        (None, "null"), (True, "true"), ([1, 2], "[1, 2]"), (0.5, "0.5"), ("é", "'é'"),
    ],
)  # fmt: skip
def test_hydra_values_are_quoted_by_its_grammar(data: object, text: str) -> None:
    assert hydra_text(from_data(data)) == text


def test_braces_that_are_no_places_stay() -> None:
    words = ["x", '{"a": 1}', "${HOME}", "{}", "{ lr }", "{{lr}}", "{lr}", "{{ x }}", "{1}"]
    assert filled(words, lr="5") == [
        "x", '{"a": 1}', "${HOME}", "{}", "{ lr }", "{lr}", "5", "{{ x }}", "{1}",
    ]  # fmt: skip


def test_a_place_may_have_a_format() -> None:
    assert filled(["x", "{lr:.2e}", "{n:04d}", "{s:>4}"], lr="0.000123", n="7", s="ab") == [
        "x", "1.23e-04", "0007", "  ab",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x", "{lrr}"], "{lrr} is not a parameter"),
        (["x", "{lr:__class__}"], "can't be understood"),
        (["x", "{lr:9999999d}"], "can't be understood"),
        (["x", "{lr:d}"], "can't be written"),
        (["x", "a${args}"], "several words"),
        (['x "${args}"'], "several words"),
        (["x | tee log"], "not used"),
        (["x; y"], "not used"),
        (["x > log"], "not used"),
        (["x # note"], "not used"),
    ],
)
def test_a_slip_in_a_command_is_named(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        filled(words, lr="0.5")
    assert said in caught.value.message
    assert caught.value.hint


def test_all_parameters_at_once_as_in_a_sweep_file() -> None:
    for macro, words in (
        ("args", ["--lr=0.1", "--amp=true", "--ema=false"]),
        ("args_no_hyphens", ["lr=0.1", "amp=true", "ema=false"]),
        ("args_no_boolean_flags", ["--lr=0.1", "--amp"]),
        ("args_json", ['{"lr": 0.1, "amp": true, "ema": false}']),
    ):
        argv = filled(["p", f"${{{macro}}}", "end"], lr="0.1", amp="true", ema="false")
        assert argv == ["p", *words, "end"]
    assert filled(["p ${args} | q"], x="a b") == "p '--x=a b' | q"


@given(HOSTILE)
def test_a_value_is_never_more_than_a_part_of_its_word(value: str) -> None:
    point = {"x": Value(value, value), "y": Value(value, value)}
    template = Template(["prog", "--x={x}", "{x}"], ["x", "y"])
    assert template.filled(point, "")["argv"] == ["prog", f"--x={value}", value, "--y", value]


# Each line prints the value, and nothing that the value says is carried out.
CONTEXTS = (
    "printf '%s\\0' {x}",
    'printf "%s\\0" "{x}"',
    "printf '%s\\0' '{x}'",
    "printf '%s\\0' \"pre{x}post\" | sed -z 's/^pre//; s/post$//'",
    "echo ignored >/dev/null; printf '%s\\0' \"${HOME:+}\"{x}",
    "printf '%s\\0' $(true){x}",
    "printf '%s\\0' `true`\"$(true){x}\"",
    "printf '%s\\0' $((1+1)){x} | sed -z 's/^2//'",
)


@settings(max_examples=60)
@given(st.lists(HOSTILE, min_size=1, max_size=8))
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_hostile_text_never_becomes_shell(shell: str, values: list[str]) -> None:
    templates = [Template([context], ["x"]) for context in CONTEXTS]
    lines = [
        template.filled({"x": Value(value, value)}, "")["shell"]
        for template in templates
        for value in values
    ]
    done = subprocess.run(
        [shell, "-c", "\n".join(lines)], capture_output=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.stderr == b""
    assert done.stdout.decode().split("\0")[:-1] == values * len(CONTEXTS)


@pytest.mark.parametrize(
    "shell",
    [
        "echo `echo {x}`",
        'echo "$(echo {x})"',
        "cat <<END\n{x}\nEND",
        "echo $'{x}'",
        'echo "${y:-{x}}"',
        "echo \\{x}",
        "true # {x}",
        "echo 'a\\'{x}'",
        "echo $(( {x} ))",
    ],
)
def test_where_quoting_is_too_intricate_only_harmless_values_are_taken(shell: str) -> None:
    template = Template([shell], ["x"])
    assert template.filled(point_of(x="0.5"), "")["shell"] == shell.replace("{x}", "0.5")
    with pytest.raises(UsageError, match="safely") as caught:
        template.filled(point_of(x="$(reboot)"), "")
    assert "several words" in caught.value.hint


@given(HOSTILE)
def test_a_quoted_word_has_backslashes_outside_its_quotes(value: str) -> None:
    # Within single quotes a backslash is plain to sh, but not to fish.
    word = in_quotes(value)
    inside = word.split("'")[1::2] if "\\'" not in word else []
    assert all("\\" not in part for part in inside)


def test_texts_such_as_file_names_are_filled_as_they_are() -> None:
    text = Text("runs/{lr}-{point}.txt", ["lr"])
    assert text.filled(point_of(lr="0.1"), "abc") == "runs/0.1-abc.txt"
    assert not text.is_fixed
    assert Text("log.txt", ["lr"]).is_fixed


def test_a_parameter_called_point_is_the_parameter() -> None:
    assert filled(["x", "{point}"], point="7") == ["x", "7"]
    assert filled(["x", "{point}", "{lr}"], lr="1") == ["x", "p0", "1"]


# --- identity ---


def test_a_point_is_the_same_however_its_numbers_are_written_and_ordered() -> None:
    name = identity.namer(["argv", "flags", "train"], "/work")
    assert name(point_of(lr="0.1", bs="16")) == name(point_of(bs="16", lr="1e-1"))


def test_a_point_is_another_one_with_other_parameters_command_or_directory() -> None:
    point = point_of(lr="0.1", seed="0")
    names = {
        identity.namer(["argv", "flags", "train"], "/work")(point),
        identity.namer(["argv", "flags", "train"], "/else")(point),
        identity.namer(["argv", "flags", "test"], "/work")(point),
        identity.namer(["argv", "flags", "train"], "/work")(point_of(lr="0.2", seed="0")),
        identity.namer(["argv", "flags", "train"], "/work")(point_of(lr="0.1", seed="1")),
        identity.namer(["argv", "flags", "train"], "/work")(point_of(lr="0.1")),
    }
    assert len(names) == 6


def test_the_name_of_a_point_stays_the_same_in_later_versions() -> None:
    # What ran once must be known again after an upgrade.
    name = identity.namer(["argv", "flags", "python", "t.py"], "/work")
    assert name(point_of(lr="0.1", opt="sgd")) == "sweep:de64561a7d660f2060064d8d8335e38b"
