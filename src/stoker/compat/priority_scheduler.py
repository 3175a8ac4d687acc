"""`python scheduler.py` of the priority-based scheduler: its options as those of `stoker batch`."""

from __future__ import annotations

from stoker.compat.loading import Loading

with Loading():
    from stoker.cli.main import INTERRUPTED
    from stoker.cli.main import main as stoker
    from stoker.compat.refusals import Parser, refused
    from stoker.errors import UsageError

_NO = ("", "0", "false", "no", "off")


def _parser() -> Parser:
    parser = Parser(
        prog="scheduler.py",
        description="Runs the tasks of a CSV with the columns Directory, Executable, Filename, "
        "Epochs and Priority, in batches.",
    )
    parser.add_argument(
        "-c", "--csv", help="the CSV file (default: scheduler_files/commands_1.csv)"
    )
    parser.add_argument("-n", "--num", help="how many tasks per batch (default: 20)")
    parser.add_argument(
        "--header", help="the header's row, counted from 0 (default: 0); None if there is none"
    )
    parser.add_argument(
        "-m", "--mps", nargs="?", const="True", help="whether to use NVIDIA MPS (default: no)"
    )
    parser.add_argument(
        "--thread_percentage", "--threads_percentage", metavar="PERCENT",
        help="the percentage of the GPU's threads that a task may use, 0 to 100; implies --mps",
    )  # fmt: skip
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run a command line and give its exit code: 1 if any task did not succeed."""
    try:
        args = _parser().parse_args(argv)
    except UsageError as error:
        return refused("scheduler", error)
    except KeyboardInterrupt:
        return INTERRUPTED
    words = ["batch"]
    for option in ("csv", "num", "header"):
        value = getattr(args, option)
        if value is not None:
            words += [f"--{option}", value]
    # A part of the threads can be had with MPS alone, so to name one is to ask for MPS.
    mps = args.mps if args.mps is not None else str(args.thread_percentage is not None)
    if mps.lower() not in _NO:
        words.append("--mps")
        if args.thread_percentage is not None:
            words += ["--thread_percentage", args.thread_percentage]
    elif args.thread_percentage is not None:
        clash = UsageError("without MPS there is no --thread_percentage", "leave out --mps, or it")
        return refused("scheduler", clash)
    return stoker(words)
