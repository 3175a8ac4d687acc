"""`python -m stoker.compat.scheduler`: scheduler.py, with its options, on Stoker's queue.

It waits for GPUs, runs one task in this terminal with `--gpu 0 1` appended, and keeps what the
task prints in a folder named after the date.
"""

try:
    from stoker.compat.loading import Loading
except KeyboardInterrupt:  # Ctrl-C before the next lines can say what it means.
    raise SystemExit(130) from None

with Loading():
    import argparse
    import os
    import shlex
    import sys
    import time
    from typing import Any

    from stoker.api.client import Client
    from stoker.cli.jobspec import submission
    from stoker.cli.main import main as stoker
    from stoker.cli.options import parse
    from stoker.cli.verbs.run import VERB as RUN
    from stoker.compat.refusals import Parser, refused
    from stoker.compat.scheduler_task import PORT, Kept, Task
    from stoker.errors import StokerError, UsageError
    from stoker.quantities import MAX_GPUS, declared_gpus_text, quoted
    from stoker.submission.surroundings import current_directory, find_program
    from stoker.text.terminal import out, say

USUAL_GPUS = 4
INTERRUPTED = 130


def _parser() -> Parser:
    parser = Parser(
        prog="scheduler.py",
        description="Runs a task as soon as enough GPUs are free, in this terminal.",
        epilog='e.g. scheduler.py -t "test1.py -foo 1 -v --bar 0" --gpu_count 2',
    )
    parser.add_argument("task", nargs="?", help="the quoted task, as with -t")
    parser.add_argument(
        "-t", "--task", dest="task_option", metavar="TASK",
        help="the quoted task with its arguments, run on free GPUs as soon as possible; "
        "`--gpu` and the ids of its GPUs are appended",
    )  # fmt: skip
    parser.add_argument("-gc", "--gpu_count", type=int, default=1, help="how many GPUs it needs")
    parser.add_argument(
        "-i", "--init", nargs="+", type=int,
        help="how many GPUs there are, then the ids of those that are unavailable: "
        "-i 5 3 4 means 5 GPUs of which 3 and 4 are not used (default: 4 GPUs, all free)",
    )  # fmt: skip
    parser.add_argument(
        "-fg", "--forced_gpu", type=int, metavar="GPU", help="wait until this GPU is free"
    )
    parser.add_argument(
        "-pg", "--prefered_gpu", type=int, metavar="GPU", help="this GPU if it is free, else others"
    )
    parser.add_argument(
        "-s", "--status", action="store_true", help="show the GPUs and what runs on them"
    )
    parser.add_argument(
        "-rg", "--release_gpu", type=int, nargs="+", metavar="GPU",
        help="use these GPUs again, which --init made unavailable",
    )  # fmt: skip
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print a summary when the task has ended"
    )
    parser.add_argument(
        "-o", "--out", nargs="?", help="the file for stdout (default: the terminal)"
    )
    parser.add_argument(
        "-e", "--err", nargs="?", help="the file for stderr (default: the terminal)"
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run a command line and give its exit code: the task's own."""
    try:
        return _scheduler(_parser().parse_args(argv))
    except StokerError as error:
        return refused("scheduler", error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _scheduler(args: argparse.Namespace) -> int:
    if args.task is not None and args.task_option is not None:
        raise UsageError("two tasks were given", "give one, with -t or alone")
    task = args.task if args.task_option is None else args.task_option
    asks_nothing = args.init is None and args.release_gpu is None and not args.status
    if task is None and asks_nothing:
        raise UsageError("no task was given", 'e.g. -t "test1.py -foo 1" --gpu_count 2')
    if not 1 <= args.gpu_count <= MAX_GPUS:
        raise UsageError(
            f"--gpu_count {args.gpu_count} is not possible", "write --gpu_count 1 or more"
        )
    if args.init is not None:
        _initialise(args.init[0], args.init[1:])
    elif task is not None or args.status:
        _initialise_once()
    if args.release_gpu is not None:
        with Client() as client:
            _release(client, [str(gpu) for gpu in args.release_gpu])
    if args.status:
        stoker(["status"])
    return 0 if task is None else _run(task, args)


# ---------------------------------------------------------------------- the GPUs


def _initialise_once() -> None:
    """Four free GPUs if no driver shows any and none was ever declared."""
    with Client() as client:
        if not any(gpu["declared"] or gpu["uuid"] for gpu in client.call("gpus")["gpus"]):
            client.call("gpu_add", gpus=[f"0-{USUAL_GPUS - 1}"])


def _initialise(total: int, unavailable: list[int]) -> None:
    """Use so many GPUs, declared or shown by a driver, and keep some of them out of use."""
    if not 1 <= total <= MAX_GPUS:
        raise UsageError(f"{total} GPUs can't be declared", f"write a number from 1 to {MAX_GPUS}")
    for gpu in unavailable:
        if not 0 <= gpu < total:
            raise UsageError(f"there is no GPU {gpu} among {total}", f"they are 0 to {total - 1}")
    with Client() as client:
        status = client.call("status")
        has_driver = any(gpu["uuid"] for gpu in status["gpus"])
        # A GPU that is not to be used must not be given away before it is drained.
        pause = (has_driver or bool(unavailable)) and not status["paused"]
        if pause:
            client.call("pause")
        try:
            ids = _chosen(client, total) if has_driver else _declared(client, total, status["gpus"])
            drained = [gpu for number, gpu in enumerate(ids) if number in unavailable]
            if drained:
                client.call("gpu_drain", gpus=drained)
            free = [gpu for gpu in ids if gpu not in drained]
            if free:
                client.call("gpu_resume", gpus=free)
            if len(ids) < total:
                say(
                    f"scheduler: the driver shows {len(ids)} of the {total} GPUs; "
                    f"used: {','.join(free) or 'none of them'}"
                )
        finally:
            if pause:
                client.call("resume")


def _declared(client: Client, total: int, known: list[dict[str, Any]]) -> list[str]:
    """Declare so many GPUs; their ids."""
    memory = {gpu["id"]: gpu["memory_mib"] for gpu in known}
    ids = [str(gpu) for gpu in range(total)]
    text = declared_gpus_text([(gpu, memory.get(gpu)) for gpu in ids])
    client.call("config_set", name="gpus", value=text)
    return ids


def _chosen(client: Client, total: int) -> list[str]:
    """Use the first so many of those that the driver shows; their ids."""
    client.call("config_set", name="gpus", value="auto")
    shown = [gpu["id"] for gpu in client.call("gpus")["gpus"]]
    if total < len(shown):
        client.call("config_set", name="gpus", value=",".join(shown[:total]))
    return shown[:total]


def _release(client: Client, gpus: list[str]) -> None:
    """Use these again; one that does not exist keeps no other from it."""
    problem: StokerError | None = None
    for gpu in gpus:
        try:
            client.call("gpu_resume", gpus=[gpu])
        except StokerError as error:
            problem = problem or error
    if problem is not None:
        raise problem


# ---------------------------------------------------------------------- the task


def _run(text: str, args: argparse.Namespace) -> int:
    here = current_directory()
    words = _words(text, here)
    request = _request(words, args)
    job = request["jobs"][0]
    folder = os.path.join(here, time.strftime("%Y-%m-%d"))
    out_kept = _kept(folder, words, job.get("out"), "out")
    err_kept = _kept(folder, words, job.get("err"), "err")
    new = not os.path.isdir(folder)
    _make(folder)
    job["out"], job["err"] = out_kept.path, err_kept.path
    job["overwrite"] = True  # As that tool did.
    task = Task(request, out_kept, err_kept)
    try:
        code = task.run()
    finally:
        if new and not task.started_at:
            _remove_if_empty(folder)
    if args.verbose and task.started_at:
        _tell(text, task, out_kept, err_kept)
    return code


def _words(text: str, here: str) -> list[str]:
    """The task's words; a script of this directory may be named without `./` or interpreter."""
    try:
        words = [word for line in text.splitlines() for word in shlex.split(line)]
    except ValueError:
        raise UsageError(f"the task {quoted(text)} has an open quote", "close it") from None
    if not words:
        raise UsageError("the task is empty", 'e.g. -t "test1.py -foo 1"')
    script = os.path.join(here, words[0])
    is_python = words[0].endswith(".py")
    if not os.path.isfile(script):
        return words
    by_path = "/" not in words[0] and not is_python
    if by_path and find_program(words[0], here, os.environ.get("PATH")) is not None:
        return words
    if os.access(script, os.X_OK) and (not is_python or _names_its_interpreter(script)):
        return [words[0] if "/" in words[0] else f"./{words[0]}", *words[1:]]
    return [sys.executable, *words] if is_python else words


def _names_its_interpreter(script: str) -> bool:
    try:
        with open(script, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _request(words: list[str], args: argparse.Namespace) -> dict[str, Any]:
    options = ["--gpus", str(args.gpu_count)]
    forced, preferred = args.forced_gpu, args.prefered_gpu
    if forced is not None and args.gpu_count > 1:
        raise UsageError("--forced_gpu is for a task with one GPU", "leave out --gpu_count")
    if forced is not None and preferred not in (None, forced):
        raise UsageError("--forced_gpu leaves no choice to --prefered_gpu", "give one of them")
    for name, gpu in (("--on", forced), ("--prefer", preferred)):
        if gpu is not None:
            options.append(f"{name}={gpu}")
    # The versions that have these know no --gpu: there, GPU=cuda0 in the environment says which.
    if forced is None and preferred is None and PORT not in words:
        options.append("--gpu-arg")
    else:
        options += ["--visible", "all"]
    for name, file in (("--out", args.out), ("--err", args.err)):
        if file is not None:
            options.append(f"{name}={file}")
    parsed = parse(RUN, [*options, "--", *words])
    assert parsed is not None
    request = submission(parsed)
    job = request["jobs"][0]
    if job.pop("shell", None) is not None:
        # A single word is a program here, and nothing for a shell.
        job["argv"] = words
    return request


def _kept(folder: str, words: list[str], named: str | None, ending: str) -> Kept:
    if named is not None:
        return Kept(folder, os.path.basename(named), named)
    script = next((word for word in words if word.endswith((".py", ".sh"))), words[0])
    stem = os.path.splitext(os.path.basename(script))[0]
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in stem)[:60]
    return Kept(folder, f"{time.strftime('%H%M%S')}-{name}-{os.getpid()}.{ending}", None)


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"can't make the folder {folder}: {error.strerror}",
            "change to a directory where you may write",
        ) from None


def _remove_if_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        pass


def _tell(text: str, task: Task, out_kept: Kept, err_kept: Kept) -> None:
    seconds = int(task.ended_at - task.started_at)
    total = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    out(
        f"\ntask: {text}\nstdout: {out_kept.path}\nstderr: {err_kept.path}\n"
        f"start: {_moment(task.started_at)}\nend: {_moment(task.ended_at)}\ntotal time: {total}\n"
    )


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


if __name__ == "__main__":
    sys.exit(main())
