"""Commands out of bytes: one a line, several lines that belong together, and what is refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.submission import lines as feed_lines
from stoker.submission.lines import MOST_COMMAND_BYTES, Command, LineReader, Refusal, shown


def read(data: bytes, *, pieces: int = 1_000_000) -> list[Command | Refusal]:
    """All of a stream that arrives in pieces of this size."""
    reader = LineReader()
    found: list[Command | Refusal] = []
    for start in range(0, len(data), pieces):
        found += reader.feed(data[start : start + pieces])
    return [*found, *reader.finish()]


def commands(text: str) -> list[tuple[int, str]]:
    found = read(text.encode())
    assert all(isinstance(one, Command) for one in found), [vars(one) for one in found]
    return [(one.number, one.text) for one in found if isinstance(one, Command)]


def refused(data: bytes) -> tuple[int, str]:
    [one] = [one for one in read(data) if isinstance(one, Refusal)]
    assert one.hint
    return one.number, one.what


def test_every_line_is_a_command_with_its_number() -> None:
    assert commands("a\nb c\n  d  \n") == [(1, "a"), (2, "b c"), (3, "  d")]


def test_the_last_line_needs_no_newline() -> None:
    assert commands("a\nb") == [(1, "a"), (2, "b")]


def test_empty_lines_and_comments_are_passed_over() -> None:
    assert commands("# first\n\n   \n  # indented\na # not a comment here\n") == [
        (5, "a # not a comment here")
    ]


def test_shell_syntax_quotes_percent_and_braces_are_left_alone() -> None:
    text = """echo "ä €" | sed 's/%d/{x}/' > 'a b.txt' && echo $HOME `date +%s` ${X:-{}}"""
    assert commands(text + "\n") == [(1, text)]


def test_a_trailing_backslash_joins_lines_as_the_shell_does() -> None:
    assert commands("python train.py \\\n  --lr 0.1 \\\n  --bs 8\nnext\n") == [
        (1, "python train.py \\\n  --lr 0.1 \\\n  --bs 8"),
        (4, "next"),
    ]


def test_a_pair_of_backslashes_at_the_end_is_one_backslash_and_joins_nothing() -> None:
    assert commands("echo \\\\\nnext\n") == [(1, "echo \\\\"), (2, "next")]


def test_a_backslash_before_a_space_joins_nothing_and_keeps_its_space() -> None:
    assert commands("echo \\ \nnext\n") == [(1, "echo \\ "), (2, "next")]


def test_a_comment_is_not_continued() -> None:
    assert commands("# a comment \\\nnext\n") == [(2, "next")]


def test_a_block_is_one_command_word_for_word() -> None:
    text = "<<<\nfor i in 1 2; do\n  echo $i # mine\n\ndone\n>>>\nnext\n"
    assert commands(text) == [
        (1, "for i in 1 2; do\n  echo $i # mine\n\ndone"),
        (7, "next"),
    ]


def test_an_empty_block_is_nothing() -> None:
    assert commands("<<<\n\n>>>\na\n") == [(4, "a")]


def test_lines_of_other_systems_are_read_too() -> None:
    assert commands("\ufeffa\r\nb \\\r\n c\r\n<<<\r\nd\r\ne\r\n>>>\r\n") == [
        (1, "a"),
        (2, "b \\\n c"),
        (4, "d\ne"),
    ]


def test_what_no_command_can_be_made_of_is_refused_with_its_line() -> None:
    assert refused(b"a\nb\xff\nc\n") == (2, "it is not valid UTF-8")
    assert refused(b"a\0b\n") == (1, "there is a NUL character in it")
    assert refused(b"a\n<<<\nb\n") == (2, "the block that <<< begins here never ends")
    assert refused(b"a\n>>>\n") == (2, ">>> ends a block that never began")
    assert refused(b"a\nb \\\n") == (2, "it ends in a backslash, but no line follows")


def test_a_command_longer_than_the_kernel_takes_is_refused_and_the_next_is_not() -> None:
    longest = b"x" * MOST_COMMAND_BYTES
    assert [type(one) for one in read(longest + b"\nb\n")] == [Command, Command]
    for too_long in (
        longest + b"x",
        longest * 3,
        b"<<<\n" + b"y\n" * MOST_COMMAND_BYTES + b">>>",
        b"\\\n".join([b"x" * 1000] * 200),
    ):
        first, second = read(too_long + b"\nb\n")
        assert isinstance(first, Refusal) and "too long" in first.what
        assert isinstance(second, Command) and second.text == "b"


def test_a_line_without_end_takes_no_more_memory_than_the_longest_command() -> None:
    reader = LineReader()
    for _ in range(100):
        assert list(reader.feed(b"x" * 65_536)) == []
    assert len(reader._rest) <= MOST_COMMAND_BYTES + 2


@given(st.binary(max_size=400), st.integers(1, 20))
def test_it_does_not_matter_in_which_pieces_the_bytes_arrive(data: bytes, size: int) -> None:
    def told(found: list[Command | Refusal]) -> list[tuple[int, str]]:
        return [(o.number, o.text if isinstance(o, Command) else o.what) for o in found]

    assert told(read(data, pieces=size)) == told(read(data))


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0\\"), min_size=1)))
def test_every_line_that_says_something_is_read_once_and_in_order(lines: list[str]) -> None:
    wanted = [line for line in lines if line.encode().strip() and not _is_special(line)]
    found = read("\n".join(wanted).encode())
    assert [one.text for one in found if isinstance(one, Command)] == [
        line.encode().rstrip().decode() for line in wanted
    ]


def _is_special(line: str) -> bool:
    word = line.strip()
    return word.startswith(("#", "\ufeff", "<<<", ">>>")) or not word


def test_a_command_of_several_lines_is_shown_in_one() -> None:
    assert shown("python a.py \\\n  --lr 1") == "python a.py --lr 1"
    assert shown("a  b") == "a  b"


@given(st.lists(st.binary(max_size=5).filter(lambda line: b"\n" not in line), max_size=4))
def test_lines_are_plain_together_if_each_of_them_is(some: list[bytes]) -> None:
    assert feed_lines._are_plain(some) == all(map(feed_lines._is_plain, some))
