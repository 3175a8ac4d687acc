"""The pages of the documentation as their blocks, in order.

Every fenced block has a language that says what it is for; without one, or with one that is not
listed here, reading the page fails, so that no block is left out unnoticed. A block with a title
(```yaml title="jobs.yaml") is a file. An HTML comment `<!-- test: ... -->`, which readers do not
see, has commands that put the reader of the next block where the page supposes them to be.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "tests/README.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
)
RUN = ("bash", "console", "python", "hidden")
READ = ("yaml", "json", "toml")
SHOWN = ("text",)
FILES = ("csv",)  # makes sense only as a file

_FENCE = re.compile(r'( *)```(?P<language>\w*)(?: title="(?P<title>[^"]+)")? *')
_SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block of a page: what it is, and what it says."""

    page: str
    line: int
    language: str
    title: str
    text: str

    @property
    def where(self) -> str:
        """Where to look for it."""
        return f"{self.page}:{self.line}"


def blocks_of(page: str, text: str) -> list[Block]:
    """The blocks of a page, with its hidden commands."""
    found: list[Block] = []
    lines = iter(enumerate(text.splitlines(keepends=True), 1))
    for number, line in lines:
        if line.startswith("<!-- test:"):
            hidden = line.removeprefix("<!-- test:")
            while "-->" not in hidden:
                hidden += next(lines)[1]
            found.append(Block(page, number, "hidden", "", hidden.partition("-->")[0].strip()))
        elif line.lstrip().startswith("```"):
            fence = _FENCE.fullmatch(line.rstrip("\n"))
            assert fence, f"{page}:{number}: this fence can't be read: {line}"
            indent, language, title = fence[1], fence["language"], fence["title"] or ""
            assert language in (*RUN, *READ, *SHOWN, *FILES), f"{page}:{number}: no {language!r}"
            assert title or language not in FILES, f"{page}:{number}: which file is it?"
            body = ""
            while (line := next(lines)[1]).strip() != "```":
                body += line.removeprefix(indent)
            found.append(Block(page, number, language, title, body))
    return found


def read(page: str) -> list[Block]:
    """The blocks of a page of ours."""
    return blocks_of(page, (ROOT / page).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Command:
    """One command for the shell, and what the page shows of its output."""

    text: str
    shown: tuple[str, ...] = ()


def commands_of(block: Block) -> Iterator[Command]:
    """The commands of a block, each as long as the shell takes it for one."""
    if block.language == "console":
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            first, *shown = part.splitlines()
            yield Command(first, tuple(shown))
        return
    text = ""
    for line in block.text.splitlines(keepends=True):
        text += line
        if text.strip() and not line.endswith("\\\n") and _is_complete(text):
            yield Command(text.strip())
            text = ""
    assert not text.strip(), f"{block.where}: the shell does not understand {text}"


def _is_complete(text: str) -> bool:
    return not subprocess.run(["bash", "-n", "-c", text], capture_output=True).returncode


def spans_of(page: str) -> Iterator[str]:
    """What stands between backquotes in the prose and the tables of a page, each on one line."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^ *```.*?^ *```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    for _, span in _SPAN.findall(text):
        yield " ".join(span.replace("\\|", "|").split())


def is_shown(output: str, shown: tuple[str, ...]) -> bool:
    """Whether lines like those that a page shows come in this order.

    Numbers and paths are those of the reader, and `…` stands for anything.
    """
    lines = iter(output.splitlines())
    return all(
        any(_pattern(line).fullmatch(" ".join(one.split())) for one in lines) for line in shown
    )


def _pattern(line: str) -> re.Pattern[str]:
    text = re.escape(" ".join(line.split())).replace("…", ".*").replace(r"\.\.\.", ".*")
    text = re.sub(r"/[^\s:;,]+", r"/[^\\s:;,]+", text)
    return re.compile(re.sub(r"\d+(_\d+)?", r"\\d+(_\\d+)?", text))
