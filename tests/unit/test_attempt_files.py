"""The folders in which attempts have their files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from stoker.executors.attempt_dir import make_attempt_dir, make_folder, spread_folders


def test_a_folder_is_private_and_leaves_no_other_name_behind(tmp_path: Path) -> None:
    make_folder(f"{tmp_path}/attempts/0007")
    assert stat.S_IMODE(os.stat(tmp_path / "attempts/0007").st_mode) == 0o700
    assert os.listdir(tmp_path / "attempts") == ["0007"]


def test_a_folder_that_is_there_keeps_its_files(tmp_path: Path) -> None:
    make_folder(f"{tmp_path}/0007")
    (tmp_path / "0007" / "7001.1.log").write_text("kept")
    make_folder(f"{tmp_path}/0007")
    assert (tmp_path / "0007" / "7001.1.log").read_text() == "kept"
    assert os.listdir(tmp_path) == ["0007"]


def test_the_directory_of_an_attempt_brings_its_folder_along(tmp_path: Path) -> None:
    assert make_attempt_dir(f"{tmp_path}/attempts/0007/7001.1")
    assert not make_attempt_dir(f"{tmp_path}/attempts/0007/7001.1")


def test_a_file_system_that_can_not_spread_folders_is_no_trouble() -> None:
    spread_folders("/proc")
