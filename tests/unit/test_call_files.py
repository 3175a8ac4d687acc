"""Who asks for the result of a call keeps it from being deleted, and only that one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stoker.call_files import Asked, delete, is_kept, jobs_of, note_jobs, number_of


def written(directory: Path, number: int, attempts: int = 1) -> str:
    path = directory / f"{number}.call"
    for name in (path, *(Path(f"{path}.{n}.result") for n in range(1, attempts + 1))):
        name.write_bytes(b"x" * 5000)
    return str(path)


def test_what_several_ask_for_is_deleted_when_all_have_read_it(tmp_path: Path) -> None:
    path, other = written(tmp_path, 7, attempts=2), written(tmp_path, 8)
    first, second = Asked(str(tmp_path)), Asked(str(tmp_path))
    first.ask(path)
    second.ask(path)
    assert delete(other, 1) == 2 * 8192, "its neighbour is of no concern"
    first.done(path)
    assert delete(path, 2) is None
    second.close()  # As when its process has ended.
    assert delete(path, 2) == 3 * 8192
    assert sorted(os.listdir(tmp_path)) == ["asked"]
    assert delete(path, 2) == 0
    first.close()


def test_what_a_killed_program_has_asked_for_is_deleted(tmp_path: Path) -> None:
    path = written(tmp_path, 1)
    script = f"""
import sys
from stoker.call_files import Asked
asked = Asked({str(tmp_path)!r})
asked.ask({path!r})
print("asked", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None and program.stdout.readline() == b"asked\n"
        assert delete(path, 1) is None
        program.kill()
    assert delete(path, 1)


def test_only_calls_where_a_home_has_them_are_kept(tmp_path: Path) -> None:
    (tmp_path / "calls" / "a").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "calls")
    home = str(tmp_path)
    assert is_kept(home, f"{home}/calls/a/1.call") and is_kept(home, f"{home}/link/a/1.call")
    for other in (
        "calls/1.call",
        "calls/a/x.call",
        "calls/a/1.txt",
        "a/1.call",
        "calls/a/b/1.call",
    ):
        assert not is_kept(home, f"{home}/{other}"), other
    assert number_of("²" + ".call") == number_of("lock") == 0


def test_calls_are_known_by_the_jobs_that_make_them(tmp_path: Path) -> None:
    note_jobs(str(tmp_path), [("/x/1.call", 10)])
    note_jobs(str(tmp_path), [("/x/2.call", 11)])
    with open(tmp_path / "jobs", "a") as file:
        file.write("3.call 1")  # It was to be 12.
    assert jobs_of(str(tmp_path)) == {"1.call": 10, "2.call": 11}


def test_a_directory_that_has_gone_has_nothing_to_delete(tmp_path: Path) -> None:
    assert delete(str(tmp_path / "gone" / "1.call"), 3) == 0
