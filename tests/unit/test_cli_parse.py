"""The table parser: every form of an option, and one clear line for every slip."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from stoker.cli.main import main
from stoker.cli.options import Option, Positional, Verb, choose, parse
from stoker.cli.verbs import VERBS, load
from stoker.errors import UsageError
from stoker.quantities import whole_number
from stoker.text.suggest import nearest
from unit.cli_run import stoker

VERB = Verb(
    "try",
    "a verb to try the parser on",
    run=lambda args: 0,
    options=(
        Option("follow", "a flag", short="f"),
        Option("lines", "a value", "N", lambda text: whole_number(text, -9, 99), short="n"),
        Option("env", "may be repeated", "K=V", repeat=True),
    ),
    positionals=(Positional("ID", "words", many=True, optional=True),),
    command="optional",
    examples=(("stoker try 1", "try it"),),
)


def parsed(*words: str) -> dict[str, Any]:
    args = parse(VERB, list(words))
    assert args is not None
    return args


@pytest.mark.parametrize(
    "words",
    [["--follow", "--lines", "20"], ["--lines=20", "-f"], ["-fn20"], ["-fn", "20"], ["-n20", "-f"],
     ["-n=20", "-f"]],
)  # fmt: skip
def test_options_are_taken_in_every_usual_form(words: list[str]) -> None:
    args = parsed(*words)
    assert (args["follow"], args["lines"]) == (True, 20)


def test_what_is_not_given_has_a_value_that_says_so() -> None:
    assert parsed() == {"follow": False, "lines": None, "env": [], "id": [], "command": None}


def test_a_negative_number_is_a_value_and_not_an_option() -> None:
    assert parsed("--lines", "-5")["lines"] == -5


def test_the_last_of_several_values_counts_unless_all_of_them_do() -> None:
    args = parsed("--lines", "1", "--lines", "2", "--env", "A=1", "--env", "B=2")
    assert (args["lines"], args["env"]) == (2, ["A=1", "B=2"])


@pytest.mark.parametrize("verb", ["add", "run", "shell", "sweep", "batch", "feed", "edit"])
def test_a_list_that_is_given_in_parts_is_the_list_of_all_parts(verb: str) -> None:
    this = f"{os.getpid()},{os.getppid()}"
    lists = {"on": "0-1,3", "prefer": "3,1", "after": "36,37-38", "after-any": "4,5,6",
             "after-pid": this, "slurm": "-p,x,-q,x"}  # fmt: skip
    offered = {option.name: option for option in load(verb).options}
    said = {name: parts.split(",") for name, parts in lists.items() if name in offered}
    assert len(said) == (3 if verb == "edit" else 6)
    apart = [f"--{name}={part}" for name, parts in said.items() for part in parts]
    rest = {"shell": [], "sweep": ["a=1", "--", "true"]}.get(verb, ["--", "true"])
    args = parse(load(verb), [*apart, *rest])
    assert args is not None
    for name, parts in said.items():
        whole = (" " if name == "slurm" else ",").join(parts)
        assert args[offered[name].key] == offered[name].convert(whole), name


def test_a_gpu_that_is_named_twice_counts_once() -> None:
    args = parse(load("add"), ["--on", "0,1", "--on", "1", "--", "true"])
    assert args is not None and args["on"] == ["0", "1"]


def test_options_and_words_may_be_mixed_up_to_the_two_dashes() -> None:
    args = parsed("7", "-f", "8", "--", "cmd", "--lines", "x", "--")
    assert args["id"] == ["7", "8"]
    assert args["follow"]
    assert args["lines"] is None
    assert args["command"] == ["cmd", "--lines", "x", "--"]


def test_a_value_that_looks_like_an_option_needs_an_equals_sign() -> None:
    with pytest.raises(UsageError, match="--env needs a value"):
        parsed("--env", "--follow")
    assert parsed("--env=--follow")["env"] == ["--follow"]


def test_help_wins_over_whatever_else_is_wrong_after_it() -> None:
    assert parse(VERB, ["--help", "--nonsense"]) is None
    assert parse(VERB, ["7", "-h"]) is None
    assert parsed("--", "--help")["command"] == ["--help"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--follw"], "did you mean --follow?"),
        (["--fol"], "did you mean --follow?"),
        (["--xyzzy"], "see `stoker try --help`"),
        (["-x"], "unknown option '-x'"),
        (["--follow=yes"], "--follow takes no value"),
        (["--lines"], "--lines needs a value; write --lines N"),
        (["--lines", "many"], "--lines: 'many' is not a whole number"),
        (["-n", "many"], "-n: 'many' is not a whole number"),
    ],
)
def test_a_slip_is_told_with_what_to_do(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(*words)
    assert message in f"{refused.value.message}; {refused.value.hint}"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("cancle", "cancel"),
        ("lgos", "logs"),
        ("stat", "status"),
        ("runn", "run"),
        ("frobnicate", ""),
    ],
)
def test_a_mistyped_verb_is_recognised(typed: str, meant: str) -> None:
    assert nearest(typed, list(VERBS)) == meant


@pytest.mark.parametrize(
    "words",
    [
        ["frobnicate"],
        ["lss"],
        ["ls", "--bogus"],
        ["ls", "--state", "runing"],
        ["ls", "--limit", "0"],
        ["add"],
        ["add", "--"],
        ["add", "--", ""],
        ["add", "--", "", "x"],
        ["add", "no-such-command-anywhere", "train.py"],
        ["add", "true", "--", "train.py"],
        ["add", "--gpus", "1.5", "--", "true", "x"],
        ["add", "--mem", "8X", "--", "true", "x"],
        ["add", "--mem", "8G", "--gpus", "0", "--", "true", "x"],
        ["add", "--time-limit", "soon", "--", "true", "x"],
        ["add", "--time-limit", "0", "--", "true", "x"],
        ["add", "--signal", "USR1@2m", "--", "true", "x"],
        ["add", "--signal", "USR1@2h", "--time-limit", "1h", "--", "true", "x"],
        ["add", "--after", "x", "--", "true", "x"],
        ["add", "--at", "25:00", "--", "true", "x"],
        ["add", "--at", "2001-01-01T00:00", "--", "true", "x"],
        ["add", "--env", "NOVALUE", "--", "true", "x"],
        ["add", "--priority", "high", "--", "true", "x"],
        ["add", "--name", "two\nlines", "--", "true", "x"],
        ["add", "--group", "esc\x1b[31m", "--", "true", "x"],
        ["add", "--name", "", "--", "true", "x"],
        ["add", "--cwd", "/no/such/directory", "--", "true", "x"],
        ["add", "--out", "/no/such/directory/file", "--", "true", "x"],
        ["add", "--out", "/", "--", "true", "x"],
        ["add", "--", "no-such-command-anywhere", "x"],
        ["add", "--", "./no-such-file", "x"],
        ["add", "--", "/", "x"],
        ["add", "--gpus", "4", "--on", "0,1", "--", "true", "x"],
        ["add", "--gpus", "0.5", "--exclusive", "--", "true", "x"],
        ["add", "--cwd", "bad\udcff", "--", "true", "x"],
        ["add", "--", "true", "bad\udcff"],
        ["run"],
        ["show"],
        ["show", "x"],
        ["show", "9-3"],
        ["why"],
        ["logs"],
        ["logs", "1", "--group", "g"],
        ["logs", "1", "--grep", "("],
        ["logs", "1", "--grep", "x", "--raw"],
        ["logs", "1", "--name", "x"],
        ["logs", "1", "--all", "-n", "3"],
        ["wait"],
        ["wait", "1", "--all"],
        ["wait", "1", "--timeout", "x"],
        ["cancel"],
        ["edit"],
        ["edit", "7"],
        ["edit", "7", "--exclusive", "--no-exclusive"],
        ["pause", "now"],
        ["gpus", "drian", "2"],
        ["gpus", "drain"],
        ["gpus", "drain", "a b"],
        ["gpus", "add", "4:lots"],
        ["config", "set", "gpus"],
        ["config", "get"],
        ["daemon"],
        ["daemon", "strat"],
        ["daemon", "stop", "--kill", "--drain"],
        ["completion"],
        ["completion", "tcsh"],
        ["help", "frobnicate"],
        ["help", "gpus", "x"],
        ["--bogus"],
        ["x" * 100_000],
        ["esc\x1b]0;owned\x07"],
    ],
    ids=lambda words: " ".join(words)[:40].encode("unicode_escape").decode(),
)
def test_bad_usage_is_one_line_on_stderr_and_exit_code_2(
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    # There is no daemon in this home, and none is started: all of this is seen by the client.
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    ran = stoker(capsys, *words)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("stoker: ")
    assert ran.err.count("\n") == 1
    assert ran.err.endswith("\n")
    assert ran.err.rstrip("\n").isprintable()
    assert "; " in ran.err
    assert len(ran.err) < 400
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help_with_an_example_that_its_own_parser_takes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    family = load(name)
    for verb in (family, *family.verbs):
        ran = stoker(capsys, *verb.name.split(), "--help")
        assert ran.code == 0
        assert ran.err == ""
        assert "Examples:" in ran.out
        assert "\x1b" not in ran.out
        for line, _ in verb.examples:
            words = shlex.split(line)
            # What comes after a pipe, a redirection or the like is for the shell.
            ends = [words.index(word) for word in ("|", "&&", ">", "<") if word in words]
            words = words[: min(ends, default=len(words))]
            if words[0] != "stoker":
                continue
            member, rest = choose(load(words[1] if len(words) > 1 else "status"), words[2:])
            assert parse(member, rest) is not None, line


def test_the_options_of_add_are_shown_in_groups_the_rare_ones_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = stoker(capsys, "add", "--help").out.splitlines()
    titles = [line[:-1] for line in lines if line[:1].isupper() and line.endswith(":")]
    assert titles == [
        "What it needs", "When it starts", "Names and groups", "Limits and retries", "How it runs",
        "Sharing a GPU", "On a cluster", "Other", "Examples",
    ]  # fmt: skip
    for option, title in (("--mem 8G", titles[0]), ("--at TIME", titles[1]), ("--mps", titles[5])):
        [place] = [n for n, line in enumerate(lines) if line.startswith(f"  {option} ")]
        above = [line[:-1] for line in lines[:place] if line[:-1] in titles]
        assert above[-1] == title, option


def test_the_help_on_all_verbs_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


def test_help_and_version_are_there_in_every_usual_form(capsys: pytest.CaptureFixture[str]) -> None:
    from stoker import __version__

    overviews = {stoker(capsys, *words).out for words in (["--help"], ["-h"], ["help"])}
    assert len(overviews) == 1
    overview = overviews.pop()
    assert all(f"\n  {name} " in overview for name in VERBS)
    assert stoker(capsys, "help", "gpus", "drain").out == stoker(capsys, "gpus", "drain", "-h").out
    for word in ("--version", "-V"):
        assert stoker(capsys, word).out == f"stoker {__version__}\n"


def test_every_verb_has_a_module_of_its_own() -> None:
    for name in VERBS:
        assert load(name).name == name


def test_main_takes_its_words_from_the_command_line_if_none_are_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["stoker", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("stoker ")
