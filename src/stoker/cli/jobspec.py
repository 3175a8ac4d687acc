"""The options that describe a job, and the request that they make.

`add`, `run` and `edit` share them. The keys of what is built here are those of `JobRequest` in
api/messages.py.
"""

from __future__ import annotations

import os
import time

from stoker import quantities
from stoker.cli.options import Option
from stoker.cli.terminal import say
from stoker.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.api.client import Client
    from stoker.cli.options import Args


def _count(text: str) -> int:
    return quantities.whole_number(text, 0, 1_000_000)


def _jobs_per_gpu(text: str) -> int:
    return quantities.whole_number(text, 1, 1000)


def _priority(text: str) -> int:
    return quantities.whole_number(text, -1_000_000_000, 1_000_000_000, "priority")


def _moment(text: str) -> int:
    return quantities.moment_ms(text, time.time_ns() // 1_000_000)


def _executor(text: str) -> str:
    if text not in ("local", "slurm"):
        raise UsageError(f"there is no executor {quantities.quoted(text)}", "write local or slurm")
    return text


def _slurm_words(text: str) -> list[str]:
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        raise UsageError(
            f"{quantities.quoted(text)} has a quote that does not end", "close it"
        ) from None


JOB_OPTIONS = (
    Option("gpus", "how many GPUs: 1 unless told, 0 for none, 0.5 for a share of one", "N",
           quantities.gpu_need),
    Option("mem", "GPU memory to reserve on each GPU, which others may then share; auto: as jobs "
           "of its kind were seen to use; whole: all of it", "8G", quantities.job_memory),
    Option("mem-margin", "with --mem auto, reserve so much over what was seen: 10%, or 2G", "10%",
           quantities.memory_margin),
    Option("kind", "jobs of the same kind are taken to be alike; else by the command", "NAME",
           quantities.label),
    Option("exclusive", "share the GPUs with no other job"),
    Option("on", "only on these GPUs", "0,1", quantities.gpu_ids),
    Option("prefer", "rather on these GPUs, in this order", "3,2", quantities.gpu_ids),
    Option("mps", "share the GPU with other jobs through NVIDIA MPS"),
    Option("no-mps", "without MPS, whatever the setting mps says"),
    Option("thread-percentage", "with --mps, the part of the GPU's threads that it may use",
           "0-100", quantities.percentage),
    Option("cpus", "how many CPU slots to take", "N", _count),
    Option("max-per-gpu", "let at most so many jobs be on its GPU; by itself, a share of 1/N", "N",
           _jobs_per_gpu),
    Option("priority", "lower goes first, like nice; 0 unless told", "N", _priority),
    Option("name", "a name for the job", "NAME", quantities.label),
    Option("group", "a group that the job belongs to", "GROUP", quantities.label),
    Option("after", "start once all of these jobs have succeeded", "ID,...", quantities.job_ids),
    Option("after-any", "start once all of these jobs have ended, however", "ID,...",
           quantities.job_ids),
    Option("time-limit", "stop the job when it has run for so long", "2h",
           quantities.positive_duration_ms),
    Option("grace", "how long a job that is stopped may take before it is killed", "30s",
           quantities.duration_ms),
    Option("signal", "send a signal that long before the time limit", "USR1@2m",
           quantities.signal_spec),
    Option("retries", "run again so many times if it fails, later and later", "N", _count),
    Option("at", "not before this time: 22:00, +2h, 2026-12-01T08:00", "TIME", _moment),
    Option("cwd", "the directory to run in; this one unless told", "DIR", files="dir"),
    Option("env", "set an environment variable; may be repeated", "K=V", quantities.env_pair,
           repeat=True),
    Option("out", "write the output to this file instead of the job's log", "FILE", files="file"),
    Option("err", "write the errors to this file, apart from the output", "FILE", files="file"),
    Option("gpu-arg", "append `--gpu 0 1` (the ids of the job's GPUs) to the command"),
    Option("hold", "queue the job held: it waits for `stoker release`"),
    Option("on-cluster", "let the Slurm cluster run the job, wherever and whenever it sees fit"),
    Option("executor", "what runs the job: local or slurm; as `config set executor` says unless "
           "told", "NAME", _executor, choices=("local", "slurm")),
    Option("slurm", "more options for sbatch, as one word; implies --on-cluster", '"OPTIONS"',
           _slurm_words, dashes=True),
)  # fmt: skip

COMMAND_NOTE = (
    "Everything after -- is the command. Several words are run as they are; a single word "
    "(quoted, e.g. 'cd data && make') is run by your login shell. The job has the environment and "
    "the directory of this moment."
)


def fields_from(args: Args, *, editing: bool = False) -> dict[str, Any]:
    """The fields of a JobRequest for the options that were given, and no others.

    What an option means by itself is worked out for a new job; an edited one has other needs too.
    """
    fields: dict[str, Any] = {}
    if args["gpus"] is not None:
        count, share = args["gpus"]
        fields |= {"gpus": count} if share is None else {"share": share}
    for key in (
        "on",
        "prefer",
        "cpus",
        "max_per_gpu",
        "kind",
        "priority",
        "name",
        "group",
        "after",
        "after_any",
        "retries",
        "thread_percentage",
        "cwd",
        "out",
        "err",
        "executor",
        "slurm",
    ):
        if args.get(key) is not None:
            fields[key] = args[key]
    for key, wire_key in (
        ("mem_margin", "margin"),
        ("time_limit", "time_limit_ms"),
        ("grace", "grace_ms"),
        ("at", "not_before_ms"),
    ):
        if args[key] is not None:
            fields[wire_key] = args[key]
    if args["mem"] is not None:
        fields["mem" if isinstance(args["mem"], str) else "mem_mib"] = args["mem"]
    for flag in ("exclusive", "gpu_arg", "hold"):
        if args.get(flag):
            fields[flag] = True
    if args.get("on_cluster"):
        if fields.get("executor", "slurm") != "slurm":
            raise UsageError("--on-cluster and --executor local exclude each other", "give one")
        fields["executor"] = "slurm"
    if args.get("mps") and args.get("no_mps"):
        raise UsageError("--mps and --no-mps exclude each other", "give one of them")
    if args.get("mps") or args.get("no_mps"):
        fields["mps"] = bool(args["mps"])
    if args["signal"] is not None:
        fields["signal"], fields["signal_before_ms"] = args["signal"]
    if args["env"]:
        fields["env"] = dict(args["env"])
    if args["command"]:
        fields |= command_fields(args["command"])
    _check_together(fields)
    if not editing:
        _share_by_count(fields)
    return fields


def _share_by_count(fields: dict[str, Any]) -> None:
    """So many jobs on a GPU, and nothing said of memory or shares: each has an equal share."""
    most = fields.get("max_per_gpu", 1)
    if most == 1 or "mem_mib" in fields or fields.get("mem") == "auto" or "share" in fields:
        return
    if fields.get("exclusive") or fields.get("gpus", 1) != 1:
        raise UsageError(
            f"--max-per-gpu {most} is for jobs that share one GPU, or share by memory",
            "add --mem, or leave out --gpus and --exclusive",
        )
    fields["share"] = 1000 // most / 1000
    fields.pop("gpus", None)


def command_fields(words: list[str]) -> dict[str, Any]:
    """One word is for the login shell, several are run as they are."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"the command's word {quantities.quoted(word)} is not valid UTF-8",
                "put it into a script, and queue that",
            ) from None
    if len(words) == 1:
        if not words[0].strip():
            raise UsageError("the command is empty", "write a command after --")
        return {"shell": words[0]}
    if not words[0]:
        raise UsageError("the command's first word is empty", "write a program's name after --")
    return {"argv": words}


def _check_together(fields: dict[str, Any]) -> None:
    if fields.get("gpus") == 0:
        for key, option in (
            ("mem_mib", "--mem"),
            ("mem", "--mem"),
            ("on", "--on"),
            ("prefer", "--prefer"),
            ("exclusive", "--exclusive"),
        ):
            if fields.get(key):
                raise UsageError(
                    f"{option} makes no sense for a job without GPUs",
                    f"leave {option} out, or ask for a GPU",
                )
    if fields.get("exclusive") and "share" in fields:
        raise UsageError("a share of a GPU can't be exclusive", "write --gpus 1 --exclusive")
    # A cluster is told a type of GPU and not which ones.
    numbered = all(name.isdigit() for name in fields.get("on") or ())
    if fields.get("on") and numbered and (fields.get("gpus") or 1) > len(fields["on"]):
        raise UsageError(
            f"--gpus {fields['gpus']} can't be had on the {len(fields['on'])} named with --on",
            "name more GPUs, or ask for fewer",
        )
    limit_ms = fields.get("time_limit_ms")
    before_ms = fields.get("signal_before_ms")
    if before_ms is not None and limit_ms is not None and before_ms >= limit_ms:
        raise UsageError(
            "--signal comes before the job has even started",
            "write a time that is shorter than --time-limit",
        )


def submission(args: Args) -> dict[str, Any]:
    """What `submit` is sent for one job: the job, and the environment and directory of now."""
    fields = fields_from(args)
    if "signal" in fields and "time_limit_ms" not in fields:
        raise UsageError("--signal is sent before the time limit", "write --time-limit too")
    here = current_directory()
    cwd = settle_paths(fields, here)
    environment = submitted_environment()
    if "argv" in fields and not is_for_cluster(fields):
        path = {**environment, **fields.get("env", {})}.get("PATH")
        require_program(fields["argv"][0], cwd, path)
    return {
        "jobs": [fields],
        "cwd": cwd,
        "env": environment,
        "user": user_name(),
        # A submission that is cut off is repeated with the same token, and taken once.
        "token": os.urandom(16).hex(),
    }


def submit(client: Client, request: dict[str, Any], **more: Any) -> int:
    """Send a submission of one job, and give the job's id."""
    settle_requirements(client, request["jobs"][0])
    job_id: int = client.call("submit", **request, **more)["ids"][0]
    return job_id


def settle_requirements(client: Client, job: dict[str, Any]) -> None:
    """Ranges and `last` mean what they mean now; a job depends on other jobs by number."""
    for key in ("after", "after_any"):
        required = job.get(key)
        if required and not all(one.isdigit() for one in required):
            found = client.call("list", select={"ids": required}, all=True)["jobs"]
            job[key] = [str(one["id"]) for one in found]


def current_directory() -> str:
    """Where the user stands."""
    try:
        here = os.getcwd()
    except OSError:
        raise UsageError("this directory no longer exists", "go to another, or use --cwd") from None
    try:
        here.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "this directory's name is not valid UTF-8", "go to another, or use --cwd"
        ) from None
    return here


def settle_paths(fields: dict[str, Any], here: str) -> str:
    """Make the paths of a request absolute, see that they can be used, and give the directory."""
    cwd = os.path.normpath(os.path.join(here, fields.get("cwd", "")))
    if "cwd" in fields:
        fields["cwd"] = cwd
    if not os.path.isdir(cwd):
        raise UsageError(f"there is no directory {cwd}", "create it, or name another with --cwd")
    if not os.access(cwd, os.X_OK):
        raise UsageError(f"the directory {cwd} can't be entered", "name another with --cwd")
    for key in ("out", "err"):
        if key not in fields:
            continue
        if not fields[key]:
            raise UsageError(f"--{key} needs the name of a file", f"write --{key} FILE")
        path = os.path.join(cwd, fields[key])
        directory = os.path.dirname(path)
        if not os.path.isdir(directory):
            raise UsageError(f"--{key}: there is no directory {directory}", "create it first")
        if os.path.isdir(path):
            raise UsageError(f"--{key}: {path} is a directory", "name a file in it")
        if not os.access(path if os.path.exists(path) else directory, os.W_OK):
            raise UsageError(f"--{key}: {path} can't be written", "name another file")
        fields[key] = os.path.normpath(path)
    return cwd


def submitted_environment() -> dict[str, str]:
    """The environment of now; a variable that JSON can't carry is left out, and named."""
    environment = dict(os.environ)
    try:
        "".join(environment).encode()
        "".join(environment.values()).encode()
        return environment
    except UnicodeEncodeError:
        pass
    for key, value in list(environment.items()):
        try:
            (key + value).encode()
        except UnicodeEncodeError:
            del environment[key]
            say(f"stoker: the environment variable {key} is not valid UTF-8; the job won't have it")
    return environment


def user_name() -> str:
    """Who submits, by the system's own book."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def is_for_cluster(fields: dict[str, Any]) -> bool:
    """Whether a request says that the job is the cluster's, whose nodes may have other programs."""
    return fields.get("executor") == "slurm" or "slurm" in fields


def find_program(word: str, cwd: str, path: str | None) -> str | None:
    """The file that a command's first word means, as seen from a directory with a PATH."""
    if "/" in word:
        candidates = [word]
    else:
        candidates = [os.path.join(part, word) for part in (path or os.defpath).split(":")]
    for candidate in candidates:
        full = os.path.join(cwd, candidate)
        if os.access(full, os.X_OK) and not os.path.isdir(full):
            return full
    return None


def require_program(word: str, cwd: str, path: str | None) -> None:
    """Refuse a command that can't be found: the job would fail hours later for the same reason."""
    if find_program(word, cwd, path) is not None:
        return
    full = os.path.join(cwd, word)
    if "/" in word and os.path.isdir(full):
        raise UsageError(f"{word} is a directory", "name a program in it")
    if os.path.isfile(full):
        if "/" in word:
            raise UsageError(f"{word} is not executable", f"run: chmod +x {word}")
        raise UsageError(
            f"the command {quantities.quoted(word)} was not found",
            f"for the file here write ./{word}",
        )
    raise UsageError(
        f"the command {quantities.quoted(word)} was not found",
        "check its spelling and PATH; shell syntax goes in quotes, as one word",
    )
