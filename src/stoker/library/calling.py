"""The process of a call: takes it from its file, makes it, and puts down what came of it.

Law: to make a plain call, no more is loaded than it takes. The interpreter itself starts in 15 ms,
and `functools` or `typing` alone would add a third to that. So there is nothing of Stoker here, nor
annotations from `__future__`. The submitter's script is never run again: its path comes with the
call, and its functions as code, from which they are made here. Files are described in calls.py.
"""

import fcntl
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CellType, CodeType, FunctionType, ModuleType
    from typing import Any, BinaryIO
else:
    FunctionType = type(lambda: None)
    CellType = type((lambda value: lambda: value)(None).__closure__[0])


def _pickle_alone() -> "ModuleType":
    """`pickle`, or rather what it is made of, without all that it loads.

    Of `functools` it wants `partial` alone, which `functools` has from `_functools`. `pickle` as a
    whole loads regular expressions too, to make a list of its own constants.
    """
    try:
        import _functools  # type: ignore[import-not-found, unused-ignore]

        stand_in = sys.modules.setdefault("functools", _functools)
        try:
            import _pickle
        finally:
            if stand_in is _functools:
                del sys.modules["functools"]
    except (ImportError, AttributeError):  # Not CPython as we know it.
        import pickle

        return pickle
    return _pickle


_pickle = _pickle_alone()
_NEWEST_PROTOCOL = 5

PREPARED = "--prepared"
AGAIN = 75  # the exit code that puts a job back, EX_TEMPFAIL
_HERE = _pickle_alone.__code__.co_filename


def main() -> int:
    """Make the call that the command line names; the exit code is 1 if it raised.

    It is 75 if it is to go on later, where its checkpoint says.
    """
    try:
        return _main()
    except _GoesOnLater:
        return AGAIN


def _main() -> int:
    file = sys.argv[2]
    prepared = PREPARED in sys.argv
    for stream in (sys.stdout, sys.stderr):
        # A log is read while it grows.
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    try:
        source = open(file + ".prepared" if prepared else file, "rb")  # noqa: SIM115
    except FileNotFoundError:
        print("the call's own files are gone; submit it again", file=sys.stderr)
        return 1
    if os.fstat(source.fileno()).st_uid != os.geteuid():
        print(f"{file} belongs to another user", file=sys.stderr)
        return 1
    try:
        with source:
            header = _pickle.load(source)
            sys.path[:] = header["path"]
            sys.argv[:] = header["argv"]
            checkpoint = _Checkpoint(file, header) if header.get("signals") else None
            saved = None if checkpoint is None or prepared else checkpoint.opened()
            if saved is None:
                call = _Unpickler(source).load()
            else:
                with saved:
                    call = _Unpickler(saved).load()
        _adopt(getattr(call, "target", None) or getattr(call, "func", None))
        if not prepared and hasattr(call, "prepare"):
            _prepare(call, header, file)
        elif prepared:
            os.unlink(file + ".prepared")
        if checkpoint is not None:
            checkpoint.call = call
        value = call()
        if checkpoint is not None:
            checkpoint.is_over = True
    except Exception as error:
        if checkpoint is not None:
            checkpoint.is_over = True
        _report_error(file, error)
        return 1
    try:
        _write_result(file, {"ok": True}, value)
    except Exception as error:
        if isinstance(error, OSError):
            raise  # The disk is full, say: no other result could be written either.
        problem = TypeError(f"the result of the call can't be pickled: {error}")
        _report_error(file, problem.with_traceback(error.__traceback__))
        return 1
    if checkpoint is not None:
        checkpoint.forget()
    if not header.get("kept"):
        _clear_away(file)
    return 0


class _Unpickler(_pickle.Unpickler):  # type: ignore[name-defined, misc]
    """Knows this very file; Stoker would else be looked for along the whole of the path."""

    def find_class(self, module: str, name: str) -> "Any":
        """What a pickle names."""
        return globals()[name] if module == __name__ else super().find_class(module, name)


class _GoesOnLater(SystemExit):
    """Raised where the call is when its signal comes, so that it can clean up."""


class _Checkpoint:
    """Puts down what is to be called next, when one of our signals comes, and ends the process.

    It is in the job's checkpoint directory, by the name of the call: a point that is submitted anew
    runs the code that it has then. It is deleted once the call has returned.
    """

    def __init__(self, file: str, header: "dict[str, Any]") -> None:
        import _signal  # type: ignore[import-not-found, unused-ignore]

        self.call: Any = None  # once it is about to be made
        self.is_over = False  # nothing more can be saved, or has to be
        self._signal = _signal
        self._header = header
        self._pid = os.getpid()
        directory, name = os.path.split(file)
        name = f"{os.path.basename(directory)}.{name}"
        self._path = os.path.join(os.environ.get("STOKER_CHECKPOINT_DIR") or directory, name)
        for number in header["signals"]:
            _signal.signal(number, self._on_signal)

    def opened(self) -> "BinaryIO | None":
        """What an earlier attempt has put down, after its header."""
        try:
            saved = open(self._path, "rb")  # noqa: SIM115
        except FileNotFoundError:
            return None
        if os.fstat(saved.fileno()).st_uid != os.geteuid():
            raise PermissionError(f"{self._path} belongs to another user")
        _pickle.load(saved)
        return saved

    def forget(self) -> None:
        """The call has returned."""
        try:
            os.unlink(self._path)
        except OSError:
            pass

    def _on_signal(self, number: int, frame: "Any") -> None:
        can_save = getattr(self.call, "can_save", None)
        if os.getpid() != self._pid or (can_save is not None and not can_save()):
            # A helper that was forked off, or a task that has no checkpoint after all.
            self._signal.signal(number, self._signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if self.is_over:
            return  # It is being saved, or its result is.
        self.is_over = True
        try:
            if can_save is not None:
                self._save(self.call.saved())
        except OSError as error:
            text = f"the checkpoint of the call can't be written: {error}; it goes on from before"
            print(text, file=sys.stderr)
        except BaseException:
            self.is_over = False
            raise
        raise _GoesOnLater(AGAIN)

    def _save(self, call: "Any") -> None:
        try:
            with open(self._path + ".new", "wb", opener=_private) as target:
                import cloudpickle  # type: ignore[import-untyped, unused-ignore]

                _pickle.dump(self._header, target)
                cloudpickle.dump(call, target)
            os.rename(self._path + ".new", self._path)
        except BaseException:
            try:
                os.unlink(self._path + ".new")
            except OSError:
                pass
            raise


def _adopt(target: "Any") -> None:
    """Let plain pickle find by name what came along as code from the submitter's script.

    Saving a model pickles its class by name, and the name says `__main__`.
    """
    names: dict[str, Any] = {}
    functools = sys.modules.get("functools")  # Who has no such module has no partial.
    while functools is not None and isinstance(target, functools.partial):
        target = target.func
    if isinstance(target, type):
        names[target.__name__] = target
        found = [getattr(item, "__globals__", None) for item in vars(target).values()]
    else:
        target = getattr(target, "__func__", target)
        found = [getattr(target, "__globals__", None)]
    if getattr(target, "__module__", None) != "__main__":
        return
    for scope in found:
        names |= {k: v for k, v in (scope or {}).items() if not k.startswith("__")}
    main_module = sys.modules["__main__"]
    for name, value in names.items():
        if getattr(value, "__module__", None) == "__main__" and not hasattr(main_module, name):
            setattr(main_module, name, value)


def _prepare(call: "Any", header: "dict[str, Any]", file: str) -> None:
    """Let the call name the environment that it needs, and begin again in that environment.

    Many variables count only if they are there when a process starts or a library is loaded.
    """
    wanted = {str(name): str(value) for name, value in (call.prepare() or {}).items()}
    if all(os.environ.get(name) == value for name, value in wanted.items()):
        return
    with open(file + ".prepared", "wb", opener=_private) as target:
        import cloudpickle  # type: ignore[import-untyped, unused-ignore]

        _pickle.dump(header, target)
        # Not by plain pickle: it would name classes that the next process does not have yet.
        cloudpickle.dump(call, target)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    words = [sys.executable, *sys.orig_argv[1:], PREPARED]
    os.execve(sys.executable, words, {**os.environ, **wanted})


def _report_error(file: str, error: Exception) -> None:
    import traceback

    # The lines in this file help no reader.
    while (last := error.__traceback__) and last.tb_frame.f_code.co_filename == _HERE:
        error.__traceback__ = last.tb_next
    text = "".join(traceback.format_exception(error))
    sys.stderr.write(text)
    header = {"ok": False, "text": text, "repr": f"{type(error).__name__}: {error}"}
    try:
        _write_result(file, header, error)
    except Exception:
        _write_result(file, header, None)


def _write_result(file: str, header: "dict[str, Any]", value: "Any") -> None:
    """Header and value, one after the other, in a file that is there as a whole or not at all."""
    path = f"{file}.{os.environ.get('STOKER_ATTEMPT', '1')}.result"
    try:
        with open(path + ".new", "wb", opener=_private) as target:
            _pickle.dump(header, target)
            _dump(value, target)
        os.rename(path + ".new", path)
    except BaseException:
        try:
            os.unlink(path + ".new")
        except OSError:
            pass
        raise


def _dump(value: "Any", target: "BinaryIO") -> None:
    """Plain pickle is there at once; cloudpickle is loaded only for what plain pickle can't do."""
    begin = target.tell()
    try:
        _pickle.dump(value, target, protocol=_NEWEST_PROTOCOL)
    except OSError:
        raise
    except Exception:
        import cloudpickle  # type: ignore[import-untyped, unused-ignore]

        target.seek(begin)
        target.truncate()
        cloudpickle.dump(value, target)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _clear_away(file: str) -> None:
    """If the process that submitted the call is gone, the result will never be fetched."""
    directory = os.path.dirname(file)
    try:
        lock = os.open(os.path.join(directory, "lock"), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # It is held, so the submitter waits.
    finally:
        os.close(lock)
    base = os.path.basename(file)
    for name in os.listdir(directory):
        if name == base or name.startswith(base + "."):
            os.unlink(os.path.join(directory, name))


# --- what a call is, between its submitter and its worker -----------------------------------------


class Call:
    """A function of the user's, with its arguments."""

    def __init__(self, target: "Callable[..., Any]", args: "tuple[Any, ...]", keywords: "Any"):
        self.target = target
        self._args = args
        self._keywords = keywords

    def __call__(self) -> "Any":
        """Make it."""
        return self.target(*self._args, **self._keywords)

    def can_save(self) -> bool:
        """Whether it has a checkpoint."""
        return hasattr(self.target, "checkpoint")

    def saved(self) -> "Call":
        """What its checkpoint says is to be called next."""
        target: Any = self.target
        found = target.checkpoint(*self._args, **self._keywords)
        return self if found is self.target else following(found)


def following(found: "Any") -> Call:
    """The call that a checkpoint has returned."""
    # functools.partial, and submitit's DelayedSubmission.
    for function, keywords in (("func", "keywords"), ("function", "kwargs")):
        if all(hasattr(found, name) for name in (function, "args", keywords)):
            return Call(getattr(found, function), found.args, getattr(found, keywords))
    if callable(found):
        return Call(found, (), {})
    raise TypeError(
        "checkpoint() must return what is to be called next: self, or a functools.partial, not "
        + repr(found)
    )


class Chunk:
    """Several calls of one function, which share a process."""

    def __init__(self, target: "Callable[..., Any]", calls: "Iterable[tuple[Any, ...]]"):
        self.target = target
        self._calls = calls

    def __call__(self) -> "list[Any]":
        """Make them, one after the other."""
        return [self.target(*args) for args in self._calls]


# --- what came along as code; pickling.py names these functions in what it writes -----------------


def code_from(data: bytes) -> "CodeType":
    """The compiled body of a function."""
    import marshal

    code: CodeType = marshal.loads(data)
    return code


def module_called(name: str) -> "ModuleType":
    """A module that the function uses."""
    __import__(name)
    return sys.modules[name]


def bare_function(code: "CodeType", scope: "dict[str, Any]", cells: int) -> "FunctionType":
    """A function that has yet to be completed: it may be among the things that it uses itself.

    Functions of one module share their scope.
    """
    scope.setdefault("__builtins__", __builtins__)
    empty = tuple(CellType() for _ in range(cells))
    return FunctionType(code, scope, closure=empty or None)


def complete(function: "FunctionType", state: "tuple[Any, ...]") -> None:
    """Give a bare function what it uses, and what is known of it."""
    (names, contents, _), properties, attributes = state
    function.__globals__.update(names)
    for cell, content in zip(function.__closure__ or (), contents, strict=True):
        if content:  # One that is empty has no value yet.
            (cell.cell_contents,) = content
    for name, value in properties.items():
        setattr(function, name, value)
    function.__dict__.update(attributes)
