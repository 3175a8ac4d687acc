"""What the pages for users of older tools must tell, and the how-to's example of a handler."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("coming-from-*.md"))
# Both packages have files of the same names, which pip deletes with the older one.
SHARE_FILES = {
    "coming-from-simple-gpu-scheduler.md": "pip uninstall simple-gpu-scheduler",
    "coming-from-gpu-task-scheduler.md": "pip uninstall GPUTaskScheduler",
}


def text_of(page: Path) -> str:
    return " ".join(page.read_text(encoding="utf-8").split())


def test_there_is_a_page_for_each_of_the_five_tools_and_for_three_that_sweep() -> None:
    assert len(PAGES) == 8 and {page.name for page in PAGES} > SHARE_FILES.keys()


@pytest.mark.parametrize("name", SHARE_FILES)
def test_a_page_of_a_package_with_files_of_our_names_says_to_uninstall_that_first(
    name: str,
) -> None:
    text = text_of(DOCS / name)
    first = re.search(r"\*\*Uninstall the \w+ package first\*\* \(`([^`]+)`\), then install", text)
    assert first is not None and first[1] == SHARE_FILES[name]
    assert "pip install" not in text[: first.start()], "it is said before any other command"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_page_says_how_a_job_sees_its_gpus_and_what_becomes_of_background_processes(
    page: Path,
) -> None:
    text = text_of(page)
    assert "`CUDA_VISIBLE_DEVICES`" in text
    assert re.search(r"Processes that a \w+ leaves in the background", text)
    assert "--keep-children" in text or "To leave a process running" in text


def test_gpus_md_says_which_default_was_chosen_and_why() -> None:
    text = text_of(DOCS / "gpus.md")
    section = text.split("## How a job finds its GPUs")[1].split(" ## ")[0]
    for word in ("`--visible`", "`index`", "`uuid`", "`all`", "vLLM", "DeepSpeed", "MIG"):
        assert word in section


def test_the_handler_of_the_how_to_saves_once_and_between_two_steps() -> None:
    page = (DOCS / "howto.md").read_text(encoding="utf-8")
    [block] = [
        block
        for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        if "SIGUSR1" in block
    ]
    did: list[str] = []

    def train(step: int) -> None:
        if step == 2:
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGUSR1)
        did.append(f"step {step}")

    ours = {"train": "def train(step): ...", "save_checkpoint": "def save_checkpoint(): ..."}
    for definition in ours.values():
        assert block.count(definition) == 1
        block = block.replace(definition, "pass")
    scope: dict[str, Any] = {"train": train, "save_checkpoint": lambda: did.append("saved")}
    before = signal.getsignal(signal.SIGUSR1)
    try:
        exec(compile(block, "howto.md", "exec"), scope)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert did == ["step 0", "step 1", "step 2", "saved"]
