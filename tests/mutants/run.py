"""Plant each bug of the lists in a copy of the tree, and say which of them no test notices.

    make mutants                        all of them
    make mutants ONLY=ledger            those with this word in list, name or file
    make mutants MUTANTS_ARGS="-j 4"    four at a time

Exit code 1 if one lives, or if an entry is no longer right.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from mutants.entries import LISTS, ROOT, Mutant, all_mutants, misfit

NOTICED, LIVES, ERROR = "noticed", "lives", "error"
_TEST_TIMEOUT_S = 60  # a test that hangs has noticed
_ENTRY_TIMEOUT_S = 600
_TESTS_FAILED = 1  # an exit code of pytest; higher ones say that it could not run them


@dataclass(frozen=True)
class Outcome:
    """What came of a planted bug."""

    mutant: Mutant
    word: str
    why: str = ""
    took_s: float = 0.0

    @property
    def is_as_listed(self) -> bool:
        """A bug is noticed, unless its entry says why it is not."""
        return self.word == (LIVES if self.mutant.lives else NOTICED)


class Tree:
    """A copy of the project in which files may be changed, and its tests run."""

    def __init__(self, path: Path, source: Path = ROOT) -> None:
        self.path = path
        self._tests = path.parent / f"{path.name}-tests"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=source,
            check=True,
            capture_output=True,
        )
        compiled = (file.relative_to(source) for file in (source / "src").rglob("*.so"))
        for name in [*listed.stdout.decode().split("\0"), *map(str, compiled)]:
            if name and (source / name).is_file():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, path / name)
        if (source / ".venv-peers").is_dir():
            (path / ".venv-peers").symlink_to(source / ".venv-peers")
        # By their contents: a change within a second, of the same length, would not be seen.
        compiling = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src"]
        subprocess.run([sys.executable, *compiling], cwd=path, check=True)

    def run(self, tests: Sequence[str], workers: int = 1) -> tuple[int | None, str]:
        """The exit code of pytest (None if it had to be ended), and what it printed."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += ["--timeout", str(_TEST_TIMEOUT_S), "--basetemp", str(self._tests), *tests]
        if workers > 1:
            command += ["-n", str(workers)]
        env = os.environ | {
            "PYTHONPATH": str(self.path / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        process = subprocess.Popen(
            command,
            cwd=self.path,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code: int | None
        try:
            output, _ = process.communicate(timeout=_ENTRY_TIMEOUT_S)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, code = b"it was ended, since it took too long", None
            process.wait()
        finally:
            self._end_what_is_left()
        return code, output.decode(errors="replace")

    def _end_what_is_left(self) -> None:
        """A bug may leave daemons and jobs behind, which have their home below the tests' files."""
        ours = f"STOKER_HOME={self._tests}/".encode()
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                if any(
                    variable.startswith(ours)
                    for variable in Path("/proc", pid, "environ").read_bytes().split(b"\0")
                ):
                    os.kill(int(pid), signal.SIGKILL)
            except OSError:
                continue
        shutil.rmtree(self._tests, ignore_errors=True)


def tried(mutant: Mutant, tree: Tree) -> Outcome:
    """Plant a bug, run its tests, and take it out again."""
    file = tree.path / mutant.file
    text = file.read_text(encoding="utf-8")
    began = time.monotonic()
    file.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
    try:
        code, output = tree.run(mutant.tests)
    finally:
        file.write_text(text, encoding="utf-8")
    took_s = time.monotonic() - began
    if code in (_TESTS_FAILED, None):
        why = "its entry says that none would" if mutant.lives else ""
        return Outcome(mutant, NOTICED, why, took_s)
    if code == 0:
        return Outcome(mutant, LIVES, mutant.lives, took_s)
    return Outcome(mutant, ERROR, f"the tests did not run:\n{output.strip()[-2000:]}", took_s)


def failing_without_change(mutants: Sequence[Mutant], tree: Tree, workers: int) -> set[str]:
    """The tests that fail though nothing is planted, and so can't tell."""
    all_tests = sorted({test for mutant in mutants for test in mutant.tests})
    if tree.run(all_tests, workers)[0] == 0:
        return set()
    return {test for test in all_tests if tree.run([test], workers)[0] != 0}


def run(mutants: Sequence[Mutant], workers: int, source: Path = ROOT) -> list[Outcome]:
    """Try all of them, each in a copy that no other uses at the time."""
    wrong = {mutant: misfit(mutant, source) for mutant in mutants}
    outcomes = [Outcome(mutant, ERROR, why) for mutant, why in wrong.items() if why]
    for outcome in outcomes:
        print(line(outcome))
    mutants = [mutant for mutant, why in wrong.items() if not why]
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        trees: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        first = Tree(Path(directory, "0"), source)
        trees.put(first)
        for number in range(1, workers):
            trees.put(Tree(Path(directory, str(number)), source))
        print(f"{len(mutants)} mutants; their tests without any of them first", flush=True)
        failing = failing_without_change(mutants, first, workers)

        def one(mutant: Mutant) -> Outcome:
            broken = [test for test in mutant.tests if test in failing]
            if broken:
                return Outcome(mutant, ERROR, f"fails without the change: {', '.join(broken)}")
            tree = trees.get()
            try:
                return tried(mutant, tree)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(workers) as pool:
            for done in as_completed([pool.submit(one, mutant) for mutant in mutants]):
                outcomes.append(done.result())
                print(line(outcomes[-1]), flush=True)
    return outcomes


def line(outcome: Outcome) -> str:
    """One row of the table."""
    mark = " " if outcome.is_as_listed else "!"
    text = f"{mark} {outcome.word:<8} {outcome.took_s:5.1f} s  {outcome.mutant.name}"
    return f"{text}\n    {outcome.why}" if outcome.why else text


def is_asked_for(mutant: Mutant, words: Sequence[str]) -> bool:
    """Whether one of the words is in its list, sentence or file, if there are any words."""
    text = f"{mutant.name} {mutant.file}"
    return not words or any(word in text for word in words)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run those that are asked for; 1 if one is not as its entry says."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.split("\n")[0])
    parser.add_argument("words", nargs="*", help="only those with one of these in name or file")
    parser.add_argument("-j", dest="workers", type=int, default=2, help="how many at a time")
    parser.add_argument("--source", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    lists = options.source / LISTS.relative_to(ROOT)
    mutants = [one for one in all_mutants(lists) if is_asked_for(one, options.words)]
    if not mutants:
        print("mutants: there is none with such a name", file=sys.stderr)
        return 1
    outcomes = run(mutants, max(1, options.workers), options.source)
    counts = {word: sum(o.word == word for o in outcomes) for word in (NOTICED, LIVES, ERROR)}
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    unlike = [outcome for outcome in outcomes if not outcome.is_as_listed]
    if unlike:
        print("not as their entries say:")
        for outcome in sorted(unlike, key=lambda outcome: outcome.mutant.name):
            print(line(outcome))
    return 1 if unlike else 0


if __name__ == "__main__":
    sys.exit(main())
