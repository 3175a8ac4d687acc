"""What the page works out without a browser: `logic/*.test.js`, run by node's own test runner."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import stoker.web

STATIC = Path(stoker.web.__file__).parent / "static"
LOGIC = Path(__file__).parent / "logic"


@pytest.mark.parametrize("test", sorted(LOGIC.glob("*.test.js")), ids=lambda path: path.stem)
def test_what_the_page_works_out_is_right(test: Path, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        assert not os.environ.get("CI"), "the tests of the page's logic need node"
        pytest.skip("no node: the page's logic is tried in the browser only")
    for module in [*STATIC.glob("*.js"), test]:
        shutil.copy(module, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    ran = subprocess.run(
        [node, "--test", test.name], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
