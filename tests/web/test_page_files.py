"""The page's own files: in the wheel, without inline code, and without anybody else's address."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import stoker.web

ROOT = Path(__file__).parents[2]
STATIC = Path(stoker.web.__file__).parent / "static"
FILES = sorted(path for path in STATIC.iterdir() if path.is_file())
VENDORED = sorted((STATIC / "vendor").iterdir())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_of_the_page_keeps_to_its_policy(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`)]*", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}, "nobody else is asked for anything"
    if path.suffix == ".html":
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), "no script within the page"
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)
    if path.suffix == ".js":
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
            r"|setAttribute\(\"style\"|createContextualFragment|DOMParser|srcdoc",
            text,
        ), "text becomes text, never markup or code"
        assert max(map(len, text.splitlines())) <= 120
    if path.suffix == ".css":
        assert "@import" not in text and "url(" not in text


def test_files_of_other_projects_are_as_they_were_published() -> None:
    said = tomllib.loads((STATIC / "vendor" / "vendored.toml").read_text(encoding="utf-8"))
    hashes = {name: one for project in said.values() for name, one in project["sha256"].items()}
    held = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDORED}
    del held["vendored.toml"]
    assert held == hashes
    for project, about in said.items():
        assert about["version"] in about["package"], "it is known which one it is"
        assert about["licence"] in (STATIC / "vendor" / f"{project}.LICENSE").read_text("utf-8")


@pytest.mark.parametrize("path", VENDORED, ids=lambda path: path.name)
def test_a_file_of_another_project_makes_no_markup_or_code_of_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
        r"|setAttribute|XMLHttpRequest|\bfetch\(|@import|url\(",
        text,
    )


def test_every_module_that_is_imported_is_there() -> None:
    names = {str(path.relative_to(STATIC)) for path in (*FILES, *VENDORED)}
    for path in FILES:
        if path.suffix == ".js":
            wanted = set(re.findall(r"from \"\./([\w./]+)\"", path.read_text(encoding="utf-8")))
            assert wanted <= names, path.name


def test_the_wheel_has_the_pages_files(tmp_path: Path) -> None:
    # Beside the sources, where a build would leave its traces.
    source = tmp_path / "source"
    leave_out = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=leave_out)
    shutil.copytree(ROOT / "bin", source / "bin")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    # What builds may be there already, and then need not be fetched for this.
    as_it_is = ["--no-build-isolation"] if find_spec("setuptools") and find_spec("wheel") else []
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check",
         "--no-deps", *as_it_is, "--wheel-dir", tmp_path, source],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name.partition("/web/static/")[2] for name in archive.namelist()]
    assert set(filter(None, names)) == {str(p.relative_to(STATIC)) for p in (*FILES, *VENDORED)}
