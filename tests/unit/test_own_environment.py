"""A job's PATH does not lead into the environment that Stoker alone is installed in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stoker.submission import surroundings
from stoker.submission.own_environment import has_only_stoker, path_for_jobs

_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_OWN = {
    "stoker_gpu-0.1.0": ["msgspec>=0.18", "uvicorn", 'amdsmi>=6; extra == "amd"',
                         'pytest>=9; extra == "test"'],
    "msgspec-0.22": [],
    "uvicorn-0.29": ["typing_extensions>=4; python_version < '3.11'", "rich[jupyter]>=14.1",
                     'watchfiles; extra == "standard"'],
    "rich-14.1": ["Pygments<3", 'ipywidgets; extra == "jupyter"'],
    "pygments-2": [],
    "ipywidgets-8": [],
    "pip-24": [],
}  # fmt: skip


class Environment:
    """A virtual environment, as far as PATH is concerned."""

    def __init__(self, prefix: Path, installed: dict[str, list[str]]) -> None:
        self.prefix = prefix
        self.site_packages = prefix / "lib" / _VERSION / "site-packages"
        for name, needs in installed.items():
            folder = self.site_packages / f"{name}.dist-info"
            folder.mkdir(parents=True)
            lines = "".join(f"Requires-Dist: {one}\n" for one in needs)
            text = f"Metadata-Version: 2.4\n{lines}\nRequires-Dist: torch, it says here\n"
            (folder / "METADATA").write_text(text)
        self.bin = prefix / "bin"
        self.bin.mkdir(parents=True)
        (self.bin / "stoker").write_text("#!/bin/sh\n")

    def path(self, path: str, active: str | None = None) -> str:
        return path_for_jobs(path, active, str(self.prefix.parent / "home/bin"), str(self.prefix))


@pytest.fixture
def own(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "stoker", _OWN)


def test_stokers_own_environment_gives_way_to_a_directory_with_its_commands_only(
    own: Environment, tmp_path: Path
) -> None:
    path = own.path(f"/a:{own.bin}:/b:{own.bin}/")
    assert path == f"/a:{tmp_path}/home/bin:/b"
    commands = tmp_path / "home" / "bin"
    assert [one.name for one in commands.iterdir()] == ["stoker"]
    assert (commands / "stoker").resolve() == own.bin / "stoker"
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700
    assert own.path(f"{own.bin}") == str(commands)


def test_an_environment_by_another_name_is_recognised(own: Environment, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(own.prefix)
    assert str(own.prefix) not in own.path(f"{tmp_path}/link/bin:/b")
    assert "link" not in own.path(f"{tmp_path}/link/bin:/b")


def test_an_activated_environment_is_the_users_choice(own: Environment) -> None:
    path = f"{own.bin}:/b"
    assert own.path(path, str(own.prefix)) == path
    assert own.path(path, "/home/ada/training") != path


@pytest.mark.parametrize("more", ["torch-2.1", "pytest-9.0", "watchfiles-1", "torch_it_says-1"])
def test_an_environment_with_anything_else_is_the_users_own(more: str, tmp_path: Path) -> None:
    mixed = Environment(tmp_path / "training", {**_OWN, more: []})
    assert mixed.path(f"{mixed.bin}:/b") == f"{mixed.bin}:/b"
    assert not has_only_stoker(str(mixed.site_packages))


def test_extras_of_stoker_are_still_its_own_environment(tmp_path: Path) -> None:
    amd = Environment(tmp_path / "stoker", {**_OWN, "amdsmi-7.0": []})
    assert has_only_stoker(str(amd.site_packages))


def test_where_no_links_can_be_made_the_environment_is_left_out_all_the_same(
    own: Environment, tmp_path: Path
) -> None:
    (tmp_path / "home").write_text("in the way")
    assert own.path(f"/a:{own.bin}:/b") == "/a:/b"
    assert own.path(f"{own.bin}") == "/bin:/usr/bin"


def test_every_submission_goes_through_it(
    own: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(own.prefix))
    monkeypatch.setattr(path_for_jobs, "__defaults__", (str(own.prefix),))
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{own.bin}:/usr/bin")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert surroundings.surroundings()["env"]["PATH"] == f"{tmp_path}/home/bin:/usr/bin"
    monkeypatch.setenv("VIRTUAL_ENV", str(own.prefix))
    assert surroundings.surroundings()["env"]["PATH"] == f"{own.bin}:/usr/bin"
