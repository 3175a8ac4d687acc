"""Messages about something missing name the command that installs it for this interpreter."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.batch.documents import yaml_list
from stoker.errors import UsageError
from stoker.installing import install_command, reinstall_command
from stoker.inventory.nvml import NvmlDriver

SOURCES = Path(__file__).parents[2] / "src" / "stoker"


def test_the_command_is_that_of_this_interpreter_with_the_version_that_is_needed() -> None:
    python, *words, wanted = shlex.split(install_command("textual"))
    assert python == sys.executable and words == ["-m", "pip", "install"]
    assert wanted in {
        re.sub(r" *;.*", "", one) for one in importlib.metadata.requires("stoker-gpu") or []
    }
    assert wanted.startswith("textual>=")


def test_pip_understands_the_command() -> None:
    words = shlex.split(install_command("textual", "PyYAML"))
    done = subprocess.run([*words, "--dry-run", "--no-index"], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()  # Both are here: nothing is to be fetched.


def test_where_there_is_no_pip_the_command_is_uvs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert install_command("foo").startswith(f"uv pip install --python {sys.executable} ")


def test_without_metadata_of_stoker_the_packages_are_named_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", unknown)
    monkeypatch.setattr(importlib.metadata, "distribution", unknown)
    assert install_command("textual").endswith(" install textual")
    assert reinstall_command().endswith(" --force-reinstall --no-deps stoker-gpu")


def test_stoker_is_reinstalled_from_where_it_came() -> None:
    source = shlex.split(reinstall_command())[-1]
    assert (Path(source) / "pyproject.toml").is_file()


def test_a_batch_in_yaml_without_pyyaml_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UsageError) as caught:
        yaml_list("[]", "jobs.yaml")
    assert caught.value.hint == f"run: {install_command('PyYAML')}, or write JSON lines"


def test_a_driver_without_nvidia_ml_py_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Exception, match="nvidia-ml-py is not installed") as caught:
        NvmlDriver().open()
    assert str(caught.value).endswith(f"run: {install_command('nvidia-ml-py')}")


def test_no_message_names_an_install_command_of_its_own_or_a_file_of_the_source() -> None:
    for path in SOURCES.rglob("*.py"):
        if path.name != "installing.py":
            text = path.read_text(encoding="utf-8")
            assert "pip install" not in text and "stoker-gpu[" not in text, path
            assert not re.search(r"see docs/", text), f"{path}: an installed Stoker has no docs/"
