"""A worker makes a call, of a function that it imports or that came along as code."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial, wraps
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from stoker.errors import Failed
from stoker.library.calling import Call, Chunk
from stoker.library.calls import (
    Calls,
    Result,
    clear_after_others,
    read_result,
    succeeded_attempt,
)
from stoker.library.channel import worker_words
from stoker.library.pickling import pickled, pickled_call


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Calls]:
    made = Calls(str(tmp_path / "calls"))
    yield made
    made.close()


def _result_of(calls: Calls, call: bytes) -> Result:
    """What a worker makes of the call."""
    file = calls.write(call)
    done = subprocess.run(worker_words(file, "call"), capture_output=True, check=False)
    result = read_result(file, 1)
    assert result is not None, done.stderr.decode()
    return result


def _made(calls: Calls, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """What the function gives in a worker."""
    result = _result_of(calls, pickled_call(Call(function, args, keywords), function))
    assert result.ok, result.text
    return result.value


def _scope(text: str) -> dict[str, Any]:
    """What is defined in a script."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(text, scope)
    return scope


LOADED = _scope("""
import sys

def loaded():
    return set(sys.modules)
""")["loaded"]


def test_a_plain_call_loads_neither_cloudpickle_nor_anything_else_that_is_slow(
    calls: Calls,
) -> None:
    words = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    bare = subprocess.run(words, capture_output=True, check=True, text=True).stdout.split()
    loaded = _made(calls, LOADED) - set(bare)
    assert loaded <= {
        "_compat_pickle", "_functools", "_pickle", "copyreg", "fcntl",
        "marshal", "stoker.library.calling",
    }  # fmt: skip


def test_a_call_is_made_though_stoker_is_not_on_the_path(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = [path for path in sys.path if not os.path.exists(os.path.join(path, "stoker"))]
    monkeypatch.setattr(sys, "path", elsewhere)
    assert _made(calls, lambda number: number + 1, 1) == 2


def test_what_is_known_of_a_function_is_known_of_it_there(calls: Calls) -> None:
    def known() -> tuple[Any, ...]:
        def one(a: int, b: str = "b", *, c: float = 0.5) -> None:
            """What it says."""

        return one, {"tag": 7}

    function, attributes = known()
    function.__dict__.update(attributes)

    def look(one: FunctionType) -> tuple[Any, ...]:
        return (
            one.__name__, one.__qualname__, one.__module__, one.__doc__, one.__defaults__,
            one.__kwdefaults__, one.__annotations__, one.__dict__,
        )  # fmt: skip

    assert _made(calls, look, function) == look(function)


def test_a_function_has_its_closure_there_even_if_it_is_in_it_itself(calls: Calls) -> None:
    step = 2

    def down(number: int) -> list[int]:
        return [number, *down(number - step)] if number > 0 else []

    assert _made(calls, down, 5) == [5, 3, 1]


def test_a_name_that_has_no_value_yet_has_none_there(calls: Calls) -> None:
    def function() -> str:
        try:
            return late
        except NameError as error:
            return type(error).__name__

    assert _made(calls, function) == "NameError"
    late = "now"
    assert _made(calls, function) == late


def test_functions_of_one_script_share_its_names_there(calls: Calls) -> None:
    scope = _scope("""
count = 0

def add():
    global count
    count += 1

def twice():
    add()
    add()
    return count
""")
    assert _made(calls, scope["twice"]) == 2


def test_modules_and_their_parts_are_there_as_the_function_knows_them(calls: Calls) -> None:
    scope = _scope("""
import os
import xml.dom
import xml.dom.minidom as minidom

def function(path):
    return os.path.basename(path), xml.dom.Node.TEXT_NODE, minidom.__name__
""")
    assert _made(calls, scope["function"], "/a/b") == ("b", 3, "xml.dom.minidom")


def test_decorated_functions_generators_lambdas_and_methods_are_called_there(
    calls: Calls,
) -> None:
    def doubled(function: Callable[..., int]) -> Callable[..., int]:
        @wraps(function)
        def wrapper(*args: int) -> int:
            return 2 * function(*args)

        return wrapper

    @doubled
    def plus(a: int, b: int) -> int:
        return a + b

    def numbers(last: int) -> Iterator[int]:
        yield from range(last)

    class Base:
        def value(self) -> int:
            return 20

    class Child(Base):
        def value(self) -> int:
            return super().value() + 1

    assert _made(calls, plus, 1, 2) == 6
    assert _made(calls, lambda last: sorted(numbers(last)), 3) == [0, 1, 2]
    assert _made(calls, Child().value) == 21
    assert _made(calls, partial(plus, 1), 3) == 8
    assert _made(calls, lambda: Child.__name__ + wraps.__module__) == "Childfunctools"


def test_code_with_an_object_in_it_goes_along_too(calls: Calls) -> None:
    def function() -> object:
        return "to be replaced"

    code = function.__code__
    consts = tuple(Path("object") if c == "to be replaced" else c for c in code.co_consts)
    function.__code__ = code.replace(co_consts=consts)
    assert _made(calls, function) == Path("object")


def test_what_cloudpickle_says_in_words_that_are_new_is_left_to_it(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stoker.library import pickling

    monkeypatch.setattr(pickling, "_PROPERTIES", frozenset(("__other__",)))
    step = 2
    assert _made(calls, lambda number: number + step, 1) == 3
    assert "cloudpickle" in _made(calls, LOADED)


def test_calls_that_an_older_version_has_queued_are_made(calls: Calls) -> None:
    assert _result_of(calls, pickled(partial(pow, 2, 5), pow)).value == 32
    assert _result_of(calls, pickle.dumps(partial(pow, 2), 4)).ok is False


def test_only_the_users_own_lines_are_in_the_traceback(calls: Calls) -> None:
    def fails(number: int) -> None:
        raise ValueError(number)

    for call in (Call(fails, (1,), {}), Chunk(fails, [(1,), (2,)])):
        text = _result_of(calls, pickled_call(call, fails)).text
        assert "in fails" in text and text.count("File ") == 1
    missing = pickled_call(Call(os.path.basename, (), {}), os.path.basename)
    assert "File " not in _result_of(calls, missing).text


def _of_another_user(file: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(file, 12345, 12345)


def test_a_call_in_a_file_of_another_user_is_not_read(calls: Calls, tmp_path: Path) -> None:
    made = tmp_path / "made"
    file = calls.write(pickled_call(Call(Path.touch, (made,), {}), Path.touch))
    _of_another_user(file)
    done = subprocess.run(worker_words(file, "call"), capture_output=True, check=False)
    assert done.returncode == 1 and b"belongs to another user" in done.stderr
    assert not made.exists() and read_result(file, 1) is None


def test_the_second_step_of_a_call_is_not_read_from_a_file_of_another_user(
    calls: Calls, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    file = calls.write(pickled_call(Call(Path.touch, (made,), {}), Path.touch))
    prepared = Path(file + ".prepared")
    prepared.write_bytes(Path(file).read_bytes())
    _of_another_user(str(prepared))
    words = [*worker_words(file, "call"), "--prepared"]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 1 and b"belongs to another user" in done.stderr
    assert not made.exists()


def test_a_warm_server_takes_no_path_from_a_file_of_another_user(calls: Calls) -> None:
    file = calls.write(pickled_call(Call(os.getpid, (), {}), os.getpid))
    load = "from stoker.library import calling, warm_server; warm_server._load(calling, '')"
    words = [sys.executable, "-c", load]
    for refused in (False, True):
        if refused:
            _of_another_user(file)
        with open(file, "rb") as call:
            done = subprocess.run(words, stdin=call, capture_output=True, check=False)
        assert (b"CantWarm: the call belongs to another user" in done.stderr) is refused


def test_a_worker_that_dies_while_it_writes_leaves_no_result_that_could_be_read(
    calls: Calls,
) -> None:
    scope = _scope("""
import os

class Falls:
    def __reduce__(self):
        os.kill(os.getpid(), 9)

def much():
    return [bytes(4_000_000), Falls()]
""")
    file = calls.write(pickled_call(Call(scope["much"], (), {}), scope["much"]))
    done = subprocess.run(worker_words(file, "call"), capture_output=True, check=False)
    assert done.returncode == -9
    assert read_result(file, 1) is None


def test_a_result_that_can_not_be_written_whole_leaves_nothing_but_the_error(
    calls: Calls,
) -> None:
    scope = _scope("""
class Stubborn:
    def __reduce__(self):
        raise ValueError("never")

def much():
    return [bytes(4_000_000), Stubborn()]
""")
    file = calls.write(pickled_call(Call(scope["much"], (), {}), scope["much"]))
    subprocess.run(worker_words(file, "call"), capture_output=True, check=False)
    result = read_result(file, 1)
    assert result is not None and not result.ok
    assert sorted(os.listdir(calls.directory)) == ["1.call", "1.call.1.result", "asked", "lock"]


def test_each_attempt_has_a_result_of_its_own(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempt() -> str:
        return os.environ["STOKER_ATTEMPT"]

    file = calls.write(pickled_call(Call(attempt, (), {}), attempt))
    for number in ("1", "2"):
        monkeypatch.setenv("STOKER_ATTEMPT", number)
        subprocess.run(worker_words(file, "call"), capture_output=True, check=True)
    results = [read_result(file, number) for number in (1, 2, 3)]
    assert [one.value if one else None for one in results] == ["1", "2", None]


def test_a_call_for_which_there_is_no_room_leaves_nothing(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, mode: str) -> None:
        os.close(fd)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", full)
        with pytest.raises(Failed, match="No space left"):
            calls.write(b"")
    left = sorted(os.listdir(calls.directory))
    assert left == ["asked", "lock"], "else it would count as still to be made"


def test_a_line_that_was_cut_off_names_no_job(tmp_path: Path) -> None:
    left = Calls(str(tmp_path))
    left.write(b"")
    with open(os.path.join(left.directory, "jobs"), "w") as file:
        file.write("1.call 12")  # It was to be 123.
    os.close(left._lock)

    class Daemon:
        asked: list[int]

        def calls_of_jobs(self, job_ids: list[int]) -> list[str]:
            self.asked += job_ids
            return []

        def calls_of_group(self, group: str) -> list[str]:
            return []

    daemon = Daemon()
    daemon.asked = []
    clear_after_others(str(tmp_path), daemon)
    assert daemon.asked == []


def test_in_a_folder_of_the_users_what_a_job_is_still_to_call_is_left(tmp_path: Path) -> None:
    left = Calls(str(tmp_path), keeps=False)
    needed = left.write(b"")
    left.note_jobs([needed], [7])
    os.close(left._lock)

    class Daemon:
        unfinished = True

        def calls_of_jobs(self, job_ids: list[int]) -> list[str]:
            return [needed] if self.unfinished and 7 in job_ids else []

        def calls_of_group(self, group: str) -> list[str]:
            return []

    daemon = Daemon()
    clear_after_others(str(tmp_path), daemon)
    assert os.path.exists(needed)
    daemon.unfinished = False
    clear_after_others(str(tmp_path), daemon)
    assert os.listdir(tmp_path) == []


def test_signals_while_a_checkpoint_is_saved_do_not_cut_it_off(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scope = _scope("""
import os, signal

class Saves:
    saves = 0

    def __call__(self):
        if not self.saves:
            os.kill(os.getpid(), signal.SIGUSR2)
        return self.saves

    def checkpoint(self):
        self.saves += 1
        os.kill(os.getpid(), signal.SIGTERM)
        return self
""")
    monkeypatch.setenv("STOKER_CHECKPOINT_DIR", str(tmp_path))
    signals = (signal.SIGTERM, signal.SIGUSR2)
    target = scope["Saves"]()
    file = calls.write(pickled_call(Call(target, (), {}), target), signals)
    words = worker_words(file, "call")
    assert subprocess.run(words, capture_output=True, check=False).returncode == 75
    assert read_result(file, 1) is None
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    result = read_result(file, 1)
    assert result is not None and result.value == 1


def test_results_of_removed_jobs_are_known_by_the_attempt_that_returned(calls: Calls) -> None:
    file = calls.write(b"")
    for number, header in ((1, {"ok": False}), (2, {"ok": True}), (10, {"ok": False})):
        with open(f"{file}.{number}.result", "wb") as result:
            pickle.dump(header, result)
            pickle.dump(number, result)
    assert succeeded_attempt(file) == 2
    os.unlink(f"{file}.2.result")
    assert succeeded_attempt(file) == 0
