"""How many files the daemon may open, and how many its jobs."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import resource, sys
soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
from stoker.executors import file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(file_limit.raise_limit(), file_limit.for_jobs())
"""


@pytest.mark.parametrize(
    ("soft", "of_jobs"),
    [(256, "(256, 1024)"), (1024, "None"), (2, "(16, 1024)"), (0, "(16, 1024)")],
)
def test_jobs_keep_the_limit_that_was_there_unless_no_program_could_begin_with_it(
    soft: int, of_jobs: str
) -> None:
    words = [sys.executable, "-c", _SCRIPT, str(soft), "1024"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ran.stdout == f"1024 {of_jobs}\n"


_OVER_THE_LIMIT = """
import fcntl, os, resource, sys
from functools import partial
from stoker.executors import file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 1024))
file_limit.raise_limit()
out = fcntl.fcntl(1, fcntl.F_DUPFD, 100)
make = partial(os.posix_spawn, "/bin/sh", ["sh", "-c", "echo begun"], {},
               file_actions=[(os.POSIX_SPAWN_DUP2, out, 1)])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(file_limit.spawned(make, [out]), 0)[1]))
"""


def test_a_job_starts_though_its_output_has_a_descriptor_over_the_limit_of_jobs() -> None:
    words = [sys.executable, "-c", _OVER_THE_LIMIT]
    ran = subprocess.run(words, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "begun\n", "")
