"""The options of a job: one table, from which every front end takes what it offers.

The command line has them as `--time-limit 2h`, Python as `time_limit="2h"` (job_keywords.py has
them for type checkers), a batch file as a column or key, `stoker edit` as what can be changed;
docs/reference.md and the message on the wire (`JobRequest` in api/messages.py) follow the table
too. To add an option is to add a row here, and to act on its field where it matters.

Every submission imports this file, so it imports nothing that is slow to load.
"""

from __future__ import annotations

import time

from stoker import quantities
from stoker.api.job_option import NONE, Field, JobOption
from stoker.errors import UsageError
from stoker.quantities import plain, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from stoker.api.job_option import Fields

# The groups of options in `--help`, in order.
NEEDS, SHARING, WHEN, NAMES, LIMITS, RUNNING, CLUSTER = (
    "What it needs",
    "Sharing a GPU",
    "When it starts",
    "Names and groups",
    "Limits and retries",
    "How it runs",
    "On a cluster",
)
_COUNT = 1_000_000
YIELDS = 3  # the default of --yields; as in core/terms.py
GROUPS = (NEEDS, WHEN, NAMES, LIMITS, RUNNING, SHARING, CLUSTER)


# --- what single options mean ---------------------------------------------------------------------


def _whole(least: int, most: int, what: str = "number") -> Callable[[str], int]:
    return lambda text: quantities.whole_number(text, least, most, what)


def _moment(text: str) -> int:
    from stoker.moments import moment_ms  # Few jobs wait for a time.

    return moment_ms(text, time.time_ns() // 1_000_000)


def processes(text: str) -> list[str]:
    """Processes as they are now, so that a pid that is given again does not count."""
    from stoker.machine import process_start  # Few jobs wait for a process.

    found = []
    for part in text.split(","):
        pid = quantities.whole_number(part.strip(), 1, 2**31, "process id")
        start = process_start(pid)
        if start is None:
            raise UsageError(f"there is no process {pid}", "see `ps -u $USER` for those there are")
        found.append(f"{pid}@{start}")
    return found


def _exit_codes(text: str) -> list[int]:
    said = [quantities.whole_number(part.strip(), 1, 255, "exit code") for part in text.split(",")]
    return list(dict.fromkeys(said))


def _stuck(text: str) -> int:
    return 0 if text == "off" else quantities.whole_number(text, 1, _COUNT, "number of attempts")


def _executor(text: str) -> str:
    if text not in ("local", "slurm"):
        raise UsageError(f"there is no executor {quoted(text)}", "write local or slurm")
    return text


VISIBLE = ("index", "uuid", "all")


def _visible(text: str) -> str:
    if text not in VISIBLE:
        raise UsageError(f"{quoted(text)} is not understood", "write index, uuid or all")
    return text


def _slurm_words(text: str) -> list[str]:
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        raise UsageError(f"{quoted(text)} has a quote that does not end", "close it") from None


def _file(text: str) -> str:
    if not plain(text):
        raise UsageError("the path is empty", "name a file or directory, or leave it out")
    return text


def _metric(text: str) -> str:
    from stoker.metrics.patterns import read_pattern  # Few jobs name one.

    return read_pattern(text).text


def _command_line(text: str) -> str:
    if not plain(text).strip():
        raise UsageError("the command is empty", "write a command, or leave the option out")
    return text


def _gpus_fields(value: tuple[int | None, float | None]) -> Fields:
    count, share = value
    return {"gpus": count} if share is None else {"share": share}


def _mem_fields(value: int | str) -> Fields:
    return {"mem" if isinstance(value, str) else "mem_mib": value}


def _signal_fields(value: tuple[str, int]) -> Fields:
    return {"signal": value[0], "signal_before_ms": value[1]}


def _metric_fields(texts: list[Any]) -> Fields:
    kept: list[str] = []
    for text in texts:  # After `none`, nothing that was said before counts, as in stoker.toml.
        kept = [] if text is NONE else [*kept, text]
    return {"metric": kept}


def _cluster_fields(value: bool) -> Fields:
    return {"executor": "slurm"} if value else {}


# --- Python values --------------------------------------------------------------------------------


def _gpus_text(value: Any) -> Any:
    """A share may be a float with many digits."""
    if not isinstance(value, float):
        return value
    if value != value or value in (float("inf"), float("-inf")):
        raise UsageError(f"{value} is not a number of GPUs", "write e.g. 1, 2, 0 or 0.5")
    return f"{value:.6f}".rstrip("0").rstrip(".")


def duration_said(value: Any) -> Any:
    """A timedelta as text. A number says as little of its unit as text without one would."""
    total_seconds = getattr(value, "total_seconds", None)
    return value if total_seconds is None else f"{total_seconds():.3f}s"


class Taken:
    """A Python value that is no text, and was understood."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _moment_of(value: Any) -> Any:
    timestamp = getattr(value, "timestamp", None)
    return value if timestamp is None else Taken(round(timestamp() * 1000))


def _jobs_of(value: Any) -> Any:
    """Jobs to wait for: ids, or what has a `job_id` (a future), one or several."""
    single = isinstance(value, str | int) or hasattr(value, "job_id")
    ids: list[str] = []
    for part in [value] if single else value:
        job_id = getattr(part, "job_id", part)
        if job_id is not None:  # A future without a job had its result before.
            ids += quantities.job_ids(str(job_id))
    if not all(one.isdecimal() for one in ids):
        raise UsageError("a job depends on others by their numbers", "write e.g. [7, 8]")
    return Taken(ids)


def _codes_of(value: Any) -> Any:
    return value if isinstance(value, str | int) else ",".join(str(code) for code in value)


def _words_of(value: Any) -> Any:
    return value if isinstance(value, str) else Taken([str(word) for word in value])


# --- the table ------------------------------------------------------------------------------------

_PRIORITY = 1_000_000_000

JOB_OPTIONS: tuple[JobOption, ...] = (
    JobOption(
        "gpus", "how many GPUs (default: 1); 0 for none, 0.5 for a share of one", "N",
        quantities.gpu_need, group=NEEDS, to_fields=_gpus_fields, take=_gpus_text,
        fields=(Field("gpus", "int", least=0, most=_COUNT),
                Field("share", "number", least=0, most=1)),
    ),
    JobOption(
        "mem", "GPU memory to reserve on each GPU, which other jobs may then share; auto: as much "
        "as was measured for its kind; whole: all of it", "8G",
        quantities.job_memory, group=NEEDS, to_fields=_mem_fields, cleared=True,
        fields=(Field("mem_mib", "int", least=1, most=10**9), Field("mem", "auto|whole")),
    ),
    JobOption(
        "mem-margin", "with --mem auto, reserve this much more than measured: 10%, or 2G", "10%",
        quantities.memory_margin, group=SHARING, fields=(Field("margin", "margin"),),
    ),
    JobOption(
        "kind", "jobs with the same --kind share one memory profile (default: program and option "
        "names)", "NAME", quantities.label, group=SHARING,
        fields=(Field("kind", "text", least=1, most=500),),
    ),
    JobOption(
        "exclusive", "share the GPUs with no other job", group=NEEDS,
        fields=(Field("exclusive", "flag", False),),
    ),
    JobOption(
        "on", "only on these GPUs", "0,1", quantities.gpu_ids, group=NEEDS, cleared=True,
        fields=(Field("on", "texts", []),),
    ),
    JobOption(
        "prefer", "preferably on these GPUs, in this order", "3,2", quantities.gpu_ids,
        group=NEEDS, cleared=True, fields=(Field("prefer", "texts", []),),
    ),
    JobOption(
        "mps", "share the GPU with other jobs through NVIDIA MPS", group=SHARING,
        negative="don't use MPS, even if the setting mps is on", fields=(Field("mps", "flag"),),
    ),
    JobOption(
        "thread-percentage", "with --mps, percentage of the GPU's threads it may use", "0-100",
        quantities.percentage, group=SHARING, cleared=True,
        fields=(Field("thread_percentage", "int", least=0, most=100),),
    ),
    JobOption(
        "cpus", "how many CPU slots to take", "N", _whole(0, _COUNT), group=NEEDS, cleared=True,
        fields=(Field("cpus", "int", least=0, most=_COUNT),),
    ),
    JobOption(
        "max-per-gpu", "at most N jobs on this GPU; without --mem each reserves 1/N of it", "N",
        _whole(1, 1000), group=SHARING, cleared=True,
        fields=(Field("max_per_gpu", "int", least=1, most=10_000),),
    ),
    JobOption(
        "priority", "lower goes first, like nice (default: 0)", "N",
        _whole(-_PRIORITY, _PRIORITY, "priority"), group=WHEN,
        fields=(Field("priority", "int", 0, least=-_PRIORITY, most=_PRIORITY),),
    ),
    JobOption(
        "name", "a name for the job", "NAME", quantities.label, group=NAMES, cleared=True,
        not_in=("batch", "sweep"), fields=(Field("name", "text"),),
    ),
    JobOption(
        "group", "the group that the job belongs to", "GROUP", quantities.label, group=NAMES,
        cleared=True, not_in=("sweep",), fields=(Field("group", "text"),),
    ),
    JobOption(
        "after", "start once all of these jobs have succeeded", "ID,...", quantities.job_ids,
        group=WHEN, take=_jobs_of, not_in=("edit",), fields=(Field("after", "texts", []),),
    ),
    JobOption(
        "after-any", "start once all of these jobs have ended, in any state", "ID,...",
        quantities.job_ids, group=WHEN, take=_jobs_of, not_in=("edit",),
        fields=(Field("after_any", "texts", []),),
    ),
    JobOption(
        "after-pid", "start once this process, which Stoker did not start, has ended in any way",
        "PID,...", processes, group=WHEN, not_in=("edit",),
        fields=(Field("after_pid", "texts", []),),
    ),
    JobOption(
        "time-limit", "stop the job when it has run this long", "2h",
        quantities.run_time_ms, group=LIMITS, take=duration_said, cleared=True,
        fields=(Field("time_limit_ms", "int", least=1, most=10**12),),
    ),
    JobOption(
        "grace", "how long a job that is stopped may take before it is killed", "30s",
        quantities.duration_ms, group=LIMITS, take=duration_said,
        fields=(Field("grace_ms", "int", least=0, most=10**15),),
    ),
    JobOption(
        "signal", "send a signal this long before the time limit, or before it is stopped to go on "
        "later (--slice, --preemptible, stoker requeue)", "USR2@2m",
        quantities.signal_spec, group=LIMITS, to_fields=_signal_fields, cleared=True,
        fields=(Field("signal", "text"),
                Field("signal_before_ms", "int", 0, least=0, most=10**15)),
    ),
    JobOption(
        "retries", "retry up to N times if it fails, with increasing delay", "N",
        _whole(0, _COUNT), group=LIMITS, fields=(Field("retries", "int", 0, least=0, most=_COUNT),),
    ),
    JobOption(
        "requeue-on", "exit codes by which it asks to go on later: it is put back into the queue, "
        "which is no failure (--slice and --preemptible imply 75)", "75,76", _exit_codes,
        group=LIMITS, take=_codes_of, cleared=True,
        fields=(Field("requeue_on", "ints", [], least=1, most=255),),
    ),
    JobOption(
        "slice", "when it has run this long and other jobs wait for its GPUs, stop it and put it "
        "back into the queue, to go on later", "2h", quantities.run_time_ms, group=LIMITS,
        take=duration_said, cleared=True,
        fields=(Field("slice_ms", "int", least=1, most=10**12),),
    ),
    JobOption(
        "keep-place", "when it is put back, let it keep its place in the queue (default: behind "
        "the jobs of its priority)", group=LIMITS, fields=(Field("keep_place", "flag", False),),
    ),
    JobOption(
        "stuck-after", "fail when it was put back N times in a row without progress: nothing new "
        "in $STOKER_CHECKPOINT_DIR, no further step reported; off: never (default: 3)", "N",
        _stuck, group=LIMITS, fields=(Field("stuck_after", "int", 3, least=0, most=_COUNT),),
    ),
    JobOption(
        "requeue", "put it back after a power cut or a reboot instead of calling it lost (default: "
        "the setting requeue)", group=LIMITS, negative="let it be lost after a power cut or a "
        "reboot, even if the setting requeue is on", fields=(Field("requeue", "flag"),),
    ),
    JobOption(
        "preemptible", "let it give way for urgent jobs: it gets its signal, and goes on later",
        group=LIMITS, fields=(Field("preemptible", "flag", False),),
    ),
    JobOption(
        "yields", "with --preemptible, give way at most N times in an hour (default: 3)", "N",
        _whole(1, 1000, "number of times"), group=LIMITS,
        fields=(Field("yields", "int", YIELDS, least=1, most=1000),),
    ),
    JobOption(
        "urgent", "start before all jobs that are not urgent, and let those with --preemptible "
        "give way (default: by the setting urgent-from)", group=WHEN,
        negative="not urgent, whatever the setting urgent-from says",
        fields=(Field("urgent", "flag"),),
    ),
    JobOption(
        "max-log", "keep at most this much of its log, and of the file of --err: the beginning and "
        "the end; the job goes on; off: all of it (default: the setting max-log, for its log only)",
        "2G", quantities.log_bound, group=LIMITS, cleared=True, executors=True,
        fields=(Field("max_log_mib", "int", least=0, most=10**9),),
    ),
    JobOption(
        "at", "not before this time: 22:00, +2h, 2026-12-01T08:00", "TIME", _moment, group=WHEN,
        take=_moment_of, cleared=True,
        fields=(Field("not_before_ms", "int", least=0, most=10**15),),
    ),
    JobOption(
        "cwd", "the directory to run in (default: this one)", "DIR", _file, group=RUNNING,
        files="dir", fields=(Field("cwd", "text"),),
    ),
    JobOption(
        "freeze", "run the code as it is now: the job runs in a copy of its directory (of its git "
        "repository), without what git ignores, which it uses where it is", group=RUNNING,
        executors=True, not_in=("edit",), to_fields=lambda said: {"freeze": "."} if said else {},
        fields=(Field("freeze", "text"),),
    ),
    JobOption(
        "env", "set an environment variable; may be repeated", "K=V", quantities.env_pair,
        group=RUNNING, to_fields=lambda pairs: {"env": dict(pairs)} if pairs else {}, repeat=True,
        fields=(Field("env", "pairs", {}),),
    ),
    JobOption(
        "env-all", "pass on all environment variables, also those of a Slurm, MPI or torchrun job "
        "or a notebook that it is queued from", group=RUNNING, executors=True,
        fields=(Field("env_all", "flag", False),),
    ),
    JobOption(
        "out", "write the output to this file instead of the job's log; it may contain {id}, "
        "{name} and {attempt}, and must be new or empty, unless --append or --overwrite is given",
        "FILE", _file,
        group=RUNNING, files="file", cleared=True, not_in=("batch", "feed"),
        fields=(Field("out", "text"),),
    ),
    JobOption(
        "err", "write the errors to this file, apart from the output; it must be new or empty too",
        "FILE", _file,
        group=RUNNING, files="file", cleared=True, not_in=("batch", "feed"),
        fields=(Field("err", "text"),),
    ),
    JobOption(
        "append", "add the output to what the files of --out and --err have in them already",
        group=RUNNING, not_in=("feed",), executors=True, fields=(Field("append", "flag", False),),
    ),
    JobOption(
        "overwrite", "empty the files of --out and --err when the job first starts",
        group=RUNNING, not_in=("feed",), executors=True,
        fields=(Field("overwrite", "flag", False),),
    ),
    JobOption(
        "nice", "add N to its niceness: with 19 it takes only CPU time that is left over", "N",
        _whole(0, 19, "niceness"), group=RUNNING, cleared=True, executors=True,
        fields=(Field("nice", "int", least=0, most=19),),
    ),
    JobOption(
        "gpu-arg", "append `--gpu 0 1` (the ids of the job's GPUs) to the command; it then sees "
        "all GPUs (default of --visible: all)", group=RUNNING, not_in=("shell",),
        fields=(Field("gpu_arg", "flag", False),),
    ),
    JobOption(
        "visible", "how it finds its GPUs in CUDA_VISIBLE_DEVICES: by index, by uuid, or all: it "
        "sees all GPUs and has to keep to STOKER_GPUS (default: the setting visible)", "index",
        _visible, group=RUNNING, cleared=True, executors=True, choices=VISIBLE,
        fields=(Field("visible", "|".join(VISIBLE)),),
    ),
    JobOption(
        "keep-children", "processes that it leaves in the background (nohup ... &) go on when it "
        "has ended; its GPUs are free then", group=RUNNING, executors=True,
        fields=(Field("keep_children", "flag", False),),
    ),
    JobOption(
        "metric", "find a metric in its log by a regular expression whose first group is its value"
        ", as in 'loss=final loss (.*)'; may be repeated", "NAME=REGEX", _metric, group=RUNNING,
        repeat=True, cleared=True, executors=True,
        take=lambda said: [said] if isinstance(said, str) else said, to_fields=_metric_fields,
        fields=(Field("metric", "texts", [], most=100),),
    ),
    JobOption(
        "metrics-from", "find metrics in this file or directory of CSV, JSON lines or event files "
        "of TensorBoard; it may contain {id}, {name} and {attempt}", "PATH", _file, group=RUNNING,
        files="file", cleared=True, executors=True,
        fields=(Field("metrics_from", "text", least=1, most=4096),),
    ),
    JobOption(
        "notify", "send a message at its end (one per group or sweep): see the setting notify",
        group=RUNNING, fields=(Field("notify", "flag", False),),
    ),
    JobOption(
        "hook", "run this shell command when the job has ended, with the job as JSON on its stdin",
        "CMD", _command_line, group=RUNNING, cleared=True,
        fields=(Field("hook", "text", least=1, most=100_000),),
    ),
    JobOption(
        "hold", "queue the job held: it waits for `stoker release`", group=WHEN,
        not_in=("edit", "feed"), fields=(Field("hold", "flag", False),),
    ),
    JobOption(
        "on-cluster", "run the job on the Slurm cluster, which decides where and when",
        group=CLUSTER, to_fields=_cluster_fields, fields=(),
    ),
    JobOption(
        "executor", "what runs the job: local or slurm (default: the setting executor)", "NAME",
        _executor, group=CLUSTER, choices=("local", "slurm"),
        fields=(Field("executor", "local|slurm"),),
    ),
    JobOption(
        "slurm", "more options for sbatch, quoted as one word; implies --on-cluster", '"OPTIONS"',
        _slurm_words, group=CLUSTER, take=_words_of, dashes=True, cleared=True,
        fields=(Field("slurm", "texts", [], most=200),),
    ),
)  # fmt: skip

BY_KEY = {option.key: option for option in JOB_OPTIONS}
NEGATIVES = {f"no_{option.key}": option for option in JOB_OPTIONS if option.negative}
# Fields that only what starts a job looks at: they are kept and shown by name, as they were said.
EXECUTORS_FIELDS = tuple(f for option in JOB_OPTIONS if option.executors for f in option.fields)


def options_in(front_end: str) -> list[JobOption]:
    """The options that can be said there."""
    return [option for option in JOB_OPTIONS if front_end not in option.not_in]


# --- what was said, as fields ---------------------------------------------------------------------


def fields_of(values: Mapping[str, Any]) -> Fields:
    """The fields of the message for the values of some options, in the order of the table."""
    fields: Fields = {}
    for option in JOB_OPTIONS:
        if option.key in values:
            fields |= option.fields_for(values[option.key])
    if values.get("on_cluster") and values.get("executor", "slurm") != "slurm":
        raise UsageError("--on-cluster and --executor local exclude each other", "give one")
    return fields
