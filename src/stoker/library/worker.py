"""The process of a call: takes it from its file, makes it, and puts down what came of it.

It is run as a file, `python worker.py --call FILE NAME`, with nothing of Stoker imported: it has
the path of its submitter only after reading it from the call's own file, and the submitter's
script is never run again. The files of a call are described in calls.py.
"""

from __future__ import annotations

# Neighbours of this file must not be taken for modules of the standard library or of the user.
import sys

sys.path[:] = [entry for entry in sys.path if entry != __file__.rpartition("/")[0]]

import os  # noqa: E402

try:
    # `pickle` is this, and regular expressions, which take as long to load as all the rest.
    from _pickle import dump, load
except ImportError:  # an interpreter without C
    from pickle import dump, load

_NEWEST_PROTOCOL = 5

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any, BinaryIO

PREPARED = "--prepared"


def main() -> int:
    """Make the call that the command line names; the exit code is 1 if it raised."""
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
            header = load(source)
            sys.path[:] = header["path"]
            sys.argv[:] = header["argv"]
            call = load(source)
        _adopt(getattr(call, "target", None) or getattr(call, "func", None))
        if not prepared and hasattr(call, "prepare"):
            _prepare(call, header, file)
        elif prepared:
            os.unlink(file + ".prepared")
        value = call()
    except Exception as error:
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
    _clear_away(file)
    return 0


def _adopt(target: Any) -> None:
    """Let plain pickle find by name what came along as code from the submitter's script.

    Saving a model pickles its class by name, and the name says `__main__`.
    """
    names: dict[str, Any] = {}
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


def _prepare(call: Any, header: dict[str, Any], file: str) -> None:
    """Let the call name the environment that it needs, and begin again in that environment.

    Many variables count only if they are there when a process starts or a library is loaded.
    """
    wanted = {str(name): str(value) for name, value in (call.prepare() or {}).items()}
    if all(os.environ.get(name) == value for name, value in wanted.items()):
        return
    with open(file + ".prepared", "wb", opener=_private) as target:
        import cloudpickle  # type: ignore[import-untyped, unused-ignore]

        dump(header, target)
        # Not by plain pickle: it would name classes that the next process does not have yet.
        cloudpickle.dump(call, target)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    words = [sys.executable, *sys.orig_argv[1:], PREPARED]
    os.execve(sys.executable, words, {**os.environ, **wanted})


def _report_error(file: str, error: Exception) -> None:
    import traceback

    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next  # The line in this file helps nobody.
    text = "".join(traceback.format_exception(error))
    sys.stderr.write(text)
    header = {"ok": False, "text": text, "repr": f"{type(error).__name__}: {error}"}
    try:
        _write_result(file, header, error)
    except Exception:
        _write_result(file, header, None)


def _write_result(file: str, header: dict[str, Any], value: Any) -> None:
    """Header and value, one after the other, in a file that is there as a whole or not at all."""
    path = f"{file}.{os.environ.get('STOKER_ATTEMPT', '1')}.result"
    try:
        with open(path + ".new", "wb", opener=_private) as target:
            dump(header, target)
            _dump(value, target)
        os.rename(path + ".new", path)
    except BaseException:
        try:
            os.unlink(path + ".new")
        except OSError:
            pass
        raise


def _dump(value: Any, target: BinaryIO) -> None:
    """Plain pickle is there at once; cloudpickle is loaded only for what plain pickle can't do."""
    begin = target.tell()
    try:
        dump(value, target, protocol=_NEWEST_PROTOCOL)
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
    """If whoever submitted the call has gone meanwhile, nobody will fetch the result."""
    import fcntl

    directory = os.path.dirname(file)
    try:
        lock = os.open(os.path.join(directory, "lock"), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # It is held, so somebody waits.
    finally:
        os.close(lock)
    base = os.path.basename(file)
    for name in os.listdir(directory):
        if name == base or name.startswith(base + "."):
            os.unlink(os.path.join(directory, name))


if __name__ == "__main__":
    sys.exit(main())
