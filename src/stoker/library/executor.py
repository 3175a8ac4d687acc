"""Calls as jobs: `submit` for one, `Executor` for many, with the standard library's futures."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import itertools
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor as StandardExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from stoker.api.job_options import BY_KEY
from stoker.errors import UsageError
from stoker.library.arguments import arguments
from stoker.library.calling import AGAIN, Call, Chunk
from stoker.library.channel import Channel, Draft, channel
from stoker.library.futures import JobFuture
from stoker.library.pickling import pickled_call
from stoker.quantities import MAX_LABEL_CHARS, signal_name
from stoker.submission.keywords import (
    Fields,
    call_fields,
    check_keywords,
    is_option,
    own_keywords,
)
from stoker.text.suggest import nearest

if TYPE_CHECKING:
    from typing import Unpack

    from stoker.api.job_keywords import JobOptions

P = ParamSpec("P")
T = TypeVar("T")

_executor_numbers = itertools.count(1)


def submit(fn: Callable[..., T], /, *args: Any, **options_and_keywords: Any) -> JobFuture[T]:
    """Queue `fn(*args, **keywords)` as a job of its own and give its future.

    Keywords that are options of a job (gpus, mem, name, ...: those of `stoker add`) are the job's;
    all others are the function's. Where a function has a parameter of such a name, use
    `functools.partial`, or an `Executor`, which gives all keywords to the function.
    """
    options = {k: v for k, v in options_and_keywords.items() if is_option(k)}
    keywords = {k: v for k, v in options_and_keywords.items() if k not in options}
    check_call(fn, args, keywords, BY_KEY)
    [future] = channel().submit([draft(Call(fn, args, keywords), call_fields(options))])
    return future


def check_call(
    fn: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    options: Iterable[str] = (),
) -> None:
    """Refuse now what would fail hours later for a wrong argument.

    `options`: the keywords that may have been meant beside those of the function.
    """
    if not callable(fn):
        raise TypeError(f"{fn!r} can't be called")
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return  # Some functions written in C don't say.
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        known = own_keywords(fn)
        strange = [name for name in keywords if name not in known]
        guess = nearest(strange[0], [*known, *options]) if strange else ""
        if not guess or "unexpected keyword" not in str(error):
            raise
        raise TypeError(f"{error}; did you mean {guess}?") from None


def draft(call: Call | Chunk, fields: Fields, warm: str | None = None) -> Draft:
    """A call as it is queued."""
    target = call.target
    signals: tuple[int, ...] = ()
    fields = {"name": title_of(target), "params": arguments(call), **fields}
    if isinstance(call, Call) and not isinstance(target, type) and hasattr(target, "checkpoint"):
        fields, signals = going_on(fields)
    data, full_name = pickled_call(call, target), full_name_of(target)
    return Draft(data, fields, full_name, warm=warm, signals=signals)


def going_on(fields: Fields) -> tuple[Fields, tuple[int, ...]]:
    """The options of a call that has a checkpoint, and the signals that call for it."""
    signals = [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]
    if said := fields.get("signal"):
        signals.append(signal.Signals[f"SIG{signal_name(said)}"])
    codes = dict.fromkeys([*fields.get("requeue_on", ()), AGAIN])
    return {**fields, "requeue_on": list(codes)}, tuple(sorted(set(map(int, signals))))


def _modules_text(warm: bool | Iterable[str]) -> str | None:
    """The modules that calls have from the start, in one word; None if they are not warm."""
    if isinstance(warm, bool):
        return "" if warm else None
    if not isinstance(warm, str) and isinstance(warm, Iterable):
        names = list(warm)
        if all(isinstance(n, str) and all(map(str.isidentifier, n.split("."))) for n in names):
            return ",".join(dict.fromkeys(names))
    raise UsageError(
        "warm is True, or the names of modules to load beforehand",
        'write e.g. warm=["torch", "numpy"]',
    )


def _why_never_warm(modules: str, fields: Fields) -> str | None:
    """Why no call could be warm, as far as is known before the first."""
    for name in filter(None, modules.split(",")):
        top = name.partition(".")[0]
        if top not in sys.modules and importlib.util.find_spec(top) is None:
            return f"there is no module {top}"
    if fields.get("executor") == "slurm" or fields.get("slurm"):
        return "they run on the cluster"
    if fields.get("keep_children"):
        return "they have keep_children"
    return "they see all GPUs" if fields.get("visible") == "all" else None


def title_of(fn: Any) -> str:
    """The name of what is called, for listings."""
    fn = _function_in(fn)
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    return label_of(str(name).replace("<locals>.", "").replace("<lambda>", "lambda")) or "call"


def full_name_of(fn: Any) -> str:
    """What is called, with its module or script: calls of the same one are of one kind."""
    inner = _function_in(fn)
    module = getattr(inner, "__module__", None) or type(inner).__module__
    name = f"{_place_of(str(module))}{title_of(inner)}"
    # The kind of a command is read from its words, and a word with = in it has a value.
    return "".join(c for c in name if c.isprintable()).replace("=", "_")


def _place_of(module: str) -> str:
    """Where the functions of a module are found: its name, or the path of a script."""
    if module != "__main__":
        return f"{module}."
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # It was started by `python -m`.
        return f"{spec.name.removesuffix('.__main__')}."
    path = getattr(main, "__file__", None) or os.environ.get("JPY_SESSION_NAME")
    return "__main__." if path is None else f"{os.path.abspath(path)}:"


def _function_in(fn: Any) -> Any:
    """The function itself, without what was put around it."""
    while True:
        if isinstance(fn, partial):
            fn = fn.func
        elif callable(inner := getattr(fn, "__wrapped__", None)):
            fn = inner
        else:
            return fn


def label_of(text: str) -> str:
    """What of a text can be the name of a job."""
    return "".join(letter for letter in text if letter.isprintable()).strip()[:MAX_LABEL_CHARS]


class Executor(StandardExecutor):
    """A concurrent.futures.Executor whose calls are jobs on GPUs.

    Each call has `gpus_per_job` GPUs to itself, or what else the options say (those of
    `stoker add`); `max_running` limits how many of its jobs run at a time. With `warm` their
    processes are copies of one that has an interpreter, and the modules that it names, loaded.
    Leaving a `with` block waits for all of its calls, and cancels them if Ctrl-C is the reason for
    leaving.
    """

    def __init__(
        self,
        gpus_per_job: float | str = 1,
        *,
        max_running: int | None = None,
        warm: bool | Iterable[str] = False,
        **options: Unpack[JobOptions],
    ) -> None:
        check_keywords(options, Executor)
        if "gpus" in options:
            raise UsageError("an Executor has gpus_per_job instead of gpus", "write gpus_per_job=2")
        self._warm = _modules_text(warm)
        self._said_cold = False
        self._options = {**options, "gpus": gpus_per_job}
        self._fields = call_fields(self._options)
        if self._warm is not None:
            self._warn_if_cold(_why_never_warm(self._warm, self._fields))
        self._channel: Channel = channel()
        number = next(_executor_numbers)
        # A group that nothing else uses is gone with the last of its jobs, and so is its limit.
        self._limits_its_own_group = max_running is not None and "group" not in self._fields
        self._fields.setdefault("group", f"{self._channel.default_group}-{number}")
        self._futures: set[JobFuture[Any]] = set()
        self._job_ids: set[int] = set()
        self._shut_down = False
        self._whole = self  # whose calls are waited for
        if max_running is not None:
            if isinstance(max_running, bool) or not isinstance(max_running, int) or max_running < 1:
                raise UsageError("max_running must be 1 or more", "write e.g. max_running=4")
            group = self._fields["group"]
            self._channel.request("limit_group", group=group, max_running=max_running)

    @property
    def group(self) -> str:
        """The group of its jobs, for `stoker ls --group` and the like."""
        group: str = self._fields["group"]
        return group

    def options(self, **options: Unpack[JobOptions]) -> Executor:
        """The same executor, for calls that have these options as well: those of `stoker add`.

        `executor.options(gpus=2, name="large").submit(train, 0.1)`. Its limit is that of `group`,
        so it does not count for calls in another one.
        """
        for name in set(own_keywords(Executor)) & set(options):
            raise UsageError(
                f"{name} is not for single calls, but for all of an Executor",
                "write gpus=2" if name == "gpus_per_job" else f"write Executor({name}=...)",
            )
        check_keywords(options, Executor.options)
        other = copy.copy(self)
        other._whole = self._whole
        other._options = {**self._options, **options}
        other._fields = {"group": self.group, **call_fields(other._options)}
        return other

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> JobFuture[T]:
        """Queue a call; all keywords are the function's."""
        self._look_whether_warm()
        [future] = self._submit([self._draft(Call(fn, args, kwargs))])
        return future

    def submit_many(self, fn: Callable[..., T], *iterables: Iterable[Any]) -> list[JobFuture[T]]:
        """Queue a call for each of the arguments, as `map` does, all at once; their futures."""
        self._look_whether_warm()
        calls = zip(*iterables, strict=False)
        return self._submit([self._draft(Call(fn, args, {})) for args in calls])

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """The results for all arguments, in order; `chunksize` calls share a job."""
        self._look_whether_warm()
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        deadline = None if timeout is None else time.monotonic() + timeout
        if chunksize == 1:
            return self._results(self.submit_many(fn, *iterables), deadline)
        chunks = _chunks(iterables, chunksize)
        drafts = [self._draft(Chunk(fn, chunk)) for chunk in chunks]
        return itertools.chain.from_iterable(self._results(self._submit(drafts), deadline))

    def _results(self, futures: list[JobFuture[T]], deadline: float | None) -> Iterator[T]:
        yield from _results(futures, deadline)
        self._look_whether_warm()

    def _look_whether_warm(self) -> None:
        if self._warm is not None and not self._said_cold:
            self._warn_if_cold(self._channel.calls.why_cold(self._warm))

    def _warn_if_cold(self, why: str | None) -> None:
        if why is not None:
            self._said_cold = True
            warm = f"[{self._warm}]" if self._warm else "True"
            text = f"calls with warm={warm} start as usual, and not warm: {why}"
            warnings.warn(text, RuntimeWarning, stacklevel=_level_of_caller())

    def _draft(self, call: Call | Chunk) -> Draft:
        return draft(call, self._fields, self._warm)

    def _submit(self, drafts: list[Draft]) -> list[JobFuture[Any]]:
        if self._whole._shut_down:
            raise RuntimeError("cannot schedule new futures after shutdown")
        futures = self._channel.submit(drafts)
        self._futures.update(futures)
        self._job_ids.update(f.job_id for f in futures if f.job_id is not None)
        for future in futures:
            future.add_done_callback(self._futures.discard)
        return futures

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; wait until the last of its jobs has ended."""
        if self._whole is not self:
            self._whole.shutdown(wait, cancel_futures=cancel_futures)
            return
        self._shut_down = True
        if cancel_futures:
            self._cancel([future for future in list(self._futures) if not future.running()])
        if wait:
            wait_for(list(self._futures))
            self._channel.wait_until_ended(self._job_ids)
            self._look_whether_warm()
            if self._limits_its_own_group:
                self._limits_its_own_group = False
                self._channel.tidy_up("limit_group", group=self.group, max_running=None)

    def _cancel(self, futures: list[JobFuture[Any]]) -> None:
        by_id = {future.job_id: future for future in futures if future.job_id is not None}
        if by_id:
            for job_id in self._channel.cancel(list(by_id)):
                by_id[job_id].resolve_cancelled()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        # Ctrl-C does not reach the jobs, which are in sessions of their own.
        if kind is not None and not issubclass(kind, Exception):
            self._cancel(list(self._futures))
        try:
            self.shutdown(wait=True)
        except KeyboardInterrupt:  # It comes here if all that the block had left was to wait.
            self._cancel(list(self._futures))
            self.shutdown(wait=True)
            raise
        return None


def _level_of_caller() -> int:
    """How far from the function that calls this the user's own line is, for a warning."""
    frame, level = sys._getframe(1), 1
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level


def _chunks(iterables: tuple[Iterable[Any], ...], size: int) -> Iterator[list[tuple[Any, ...]]]:
    calls = zip(*iterables, strict=False)
    while chunk := list(itertools.islice(calls, size)):
        yield chunk


def _results(futures: list[JobFuture[T]], deadline: float | None) -> Iterator[T]:
    """The results in order; if the caller stops early, the rest is cancelled."""
    futures.reverse()
    try:
        while futures:
            left_s = None if deadline is None else deadline - time.monotonic()
            # Nothing here must keep a result alive that its user has done with.
            yield _taken(futures.pop(), left_s)
    finally:
        for future in futures:
            future.cancel()


def _taken(future: JobFuture[T], timeout_s: float | None) -> T:
    try:
        return future.result(timeout_s)
    except TimeoutError:
        future.cancel()
        raise
    finally:
        del future  # An exception's traceback would keep it, and it the exception.
