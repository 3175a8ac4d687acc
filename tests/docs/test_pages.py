"""Every block of README and docs runs as it is written, in order, page by page."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from docs.pages import PAGES, Block, Command, blocks_of, commands_of, is_shown, read
from docs.reader import ENDLESS_S, Reader, network_of_its_own
from docs.surroundings import (
    ENDLESS,
    FILES,
    NOT_RUN,
    ON_A_TERMINAL,
    SURROUNDINGS,
    Special,
    Surroundings,
)
from peers import python_with_torch
from stoker.cli.help import usage
from stoker.cli.verbs import all_verbs

WITH_BLOCKS = [page for page in PAGES if any(block.language != "text" for block in read(page))]
PARSERS: dict[str, Callable[[str], object]] = {
    "yaml": yaml.safe_load,
    "json": json.loads,
    "toml": tomllib.loads,
}


def special(command: Command, among: tuple[Special, ...]) -> Special | None:
    return next((one for one in among if re.match(one.pattern, command.text)), None)


@pytest.fixture
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reader]:
    page: str = request.param
    there = SURROUNDINGS.get(page, Surroundings())
    login_node = {}
    if there.cluster:
        cluster = request.getfixturevalue("cluster")
        login_node = {"SLURM_CONF": str(cluster.conf)}
    elif not network_of_its_own():
        assert not os.environ.get("CI"), "the tests of the docs need network namespaces"
        pytest.skip("no network namespaces: others may have the port of the page")
    environment = python_with_torch().parent if there.torch else None
    reader = Reader(
        tmp_path, FILES | there.files, clone=there.clone, login_node=login_node, bin=environment
    )
    try:
        for text in there.before:
            code, output = reader.run(text)
            assert code == 0, f"{text}\n{output}"
        yield reader
    finally:
        reader.leave()


@pytest.mark.parametrize(
    ("reader", "page"), [(page, page) for page in WITH_BLOCKS], indirect=["reader"],
    ids=[page.removesuffix(".md").replace("coming-from-", "") for page in WITH_BLOCKS],
)  # fmt: skip
def test_every_block_of_a_page_runs_as_it_is_written(reader: Reader, page: str) -> None:
    for number, block in enumerate(read(page)):
        if block.title:
            reader.write(block.title, block.text)
        elif block.language in PARSERS:
            assert PARSERS[block.language](block.text)
        elif block.language == "python":
            reader.write(f"example_{number}.py", block.text)
            code, output = reader.run(f"python example_{number}.py")
            assert code == 0, f"{block.where}: exit code {code}\n{output}"
        elif block.language != "text":
            for command in commands_of(block):
                follow(reader, block, command)


def follow(reader: Reader, block: Block, command: Command) -> None:
    """Type a command, and see that it does what the page says."""
    codes = SURROUNDINGS.get(block.page, Surroundings()).codes
    if special(command, NOT_RUN):
        return
    if special(command, (*ENDLESS, *ON_A_TERMINAL)):
        code, output = reader.watch(command, terminal=bool(special(command, ON_A_TERMINAL)))
        assert code == 124, f"{block.where}: {command.text} ended within {ENDLESS_S} s\n{output}"
    else:
        code, output = reader.run(command.text)
        assert code in codes, f"{block.where}: {command.text}\nexit code {code}\n{output}"
    assert "Traceback" not in output, f"{block.where}: {command.text}\n{output}"
    assert is_shown(output, command.shown), f"{block.where}: it shows something else\n{output}"


def test_every_special_command_is_as_often_on_the_pages_as_its_entry_says() -> None:
    commands = [
        command
        for page in PAGES
        for block in read(page)
        if block.language in ("bash", "console", "hidden") and not block.title
        for command in commands_of(block)
    ]
    for one in (*NOT_RUN, *ENDLESS, *ON_A_TERMINAL):
        found = [command.text for command in commands if special(command, (one,))]
        assert len(found) == one.count, f"{one.pattern}: {found}"


def test_every_page_with_surroundings_is_a_page_with_blocks() -> None:
    assert SURROUNDINGS.keys() <= set(WITH_BLOCKS)


@pytest.mark.parametrize("page", PAGES)
def test_a_file_that_a_page_shows_is_used_by_a_later_block(page: str) -> None:
    blocks = read(page)
    for number, block in enumerate(blocks):
        if block.title:
            later = "".join(
                one.text for one in blocks[number + 1 :] if one.language in ("bash", "python")
            )
            assert re.search(rf"\b{re.escape(Path(block.title).stem)}\b", later), block.where


@pytest.mark.parametrize("page", PAGES)
def test_what_is_only_shown_has_no_commands(page: str) -> None:
    usages = {usage(verb) for verb in all_verbs()}
    for block in read(page):
        if block.language == "text" and not block.title:
            for line in block.text.splitlines():
                is_command = re.match(r" *(\$ |(stoker|pip|python3?|make|curl) )", line)
                assert not is_command or line in usages or "  " in line, f"{block.where}: {line}"


@pytest.mark.parametrize("fence", ["```", "```ruby", "``` bash", "```csv"])
def test_a_block_that_is_not_understood_is_not_left_out(fence: str) -> None:
    with pytest.raises(AssertionError):
        blocks_of("page.md", f"{fence}\nx\n```\n")


def test_blocks_titles_and_hidden_commands_are_read_in_their_order() -> None:
    text = (
        "a\n\n<!-- test: one\ntwo -->\n- item\n\n  ```bash\n  b \\\n    c\n  # d\n  ```\n"
        '```csv title="x.csv"\n1\n```\n'
    )
    hidden, shell, file = blocks_of("page.md", text)
    assert [one.text for one in commands_of(hidden)] == ["one", "two"]
    assert [one.text for one in commands_of(shell)] == ["b \\\n  c", "# d"]
    assert (file.title, file.text, file.line) == ("x.csv", "1\n", 12)


def test_what_a_page_shows_is_compared_without_numbers_and_paths() -> None:
    block = Block("page.md", 1, "console", "", "$ a 1\nb  7 in /x/y: …\n$ c\n")
    first, second = commands_of(block)
    assert (first.text, second.text, second.shown) == ("a 1", "c", ())
    assert is_shown("noise\nb 12 in /other: anything\n", first.shown)
    assert not is_shown("c 12 in /other: anything\n", first.shown)
    assert not is_shown("", first.shown)


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        ("docs/json.md", "$ stoker rm 3\n"),
        ("docs/json.md", "$ false | cat\n"),
        ("docs/json.md", "$ echo one\ntwo\n"),
        ("docs/json.md", "$ stoker gpus --watch | true\n"),
        ("docs/json.md", "$ python -c '1 / 0' || true\n"),
    ],
    indirect=["reader"],
)
def test_a_command_that_does_something_else_than_the_page_says_is_noticed(
    reader: Reader, text: str
) -> None:
    block = Block("docs/json.md", 1, "console", "", text)
    (command,) = commands_of(block)
    with pytest.raises(AssertionError):
        follow(reader, block, command)


@pytest.mark.parametrize("reader", ["docs/json.md"], indirect=True)
def test_a_page_is_one_session(reader: Reader) -> None:
    for text in ("cd ..; export A=1", "b=$(echo 2)"):
        assert reader.run(text) == (0, "")
    assert reader.run('echo "$A$b" in $PWD') == (0, f"12 in {reader.home}\n")
