"""The README and the guides promise only what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.pages import PAGES
from stoker.cli import attachment, main
from stoker.cli.verbs import wait
from stoker.errors import BY_CODE

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HOWTO = (ROOT / "docs" / "howto.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_readme_names_the_two_make_commands_and_the_makefile_has_them(target: str) -> None:
    assert f"make {target}" in README
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_between_the_pages_leads_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^):]+)\)", path.read_text(encoding="utf-8")):
        file, _, heading = target.partition("#")
        aim = path.parent / file if file else path
        assert aim.exists(), f"{page}: {target}"
        if heading:
            assert heading in anchors(aim.read_text(encoding="utf-8")), f"{page}: {target}"


def anchors(text: str) -> set[str]:
    """What a heading can be linked by."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_documented_exit_codes_are_those_of_the_errors() -> None:
    section = HOWTO.split("### Exit codes")[1].split("\n## ")[0]
    own, of_the_job = section.split("`stoker wait` and `stoker run`")
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", own, re.MULTILINE)}
    assert codes == {0, main.INTERRUPTED} | {error.exit_code for error in BY_CODE.values()}
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", of_the_job, re.MULTILINE)}
    assert codes == {0, 1, wait.TIMED_OUT, attachment.NOT_FOUND}
