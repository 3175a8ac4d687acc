"""`simple_hypersearch`: command lines from a pattern and parameter values, one a line.

The output is what the tool of that name prints for the same arguments, in the same order where a
seed is given; what made that one end with a traceback is a line on stderr here, and exit code 2.
`stoker sweep` is the way to queue such commands with more care.
"""

from __future__ import annotations

try:
    from stoker.compat.loading import Loading
except KeyboardInterrupt:  # Ctrl-C before the next lines can say what it means.
    raise SystemExit(130) from None

with Loading():
    import argparse
    import itertools
    import math
    import os
    import random
    import sys
    from collections.abc import Iterator, Sequence

    from stoker.compat.refusals import Parser, refused
    from stoker.errors import UsageError

PROGRAM = "simple_hypersearch"
INTERRUPTED = 130
_MOST_SHUFFLED = 20_000_000


def _parser() -> Parser:
    parser = Parser(
        prog=PROGRAM,
        description="Print a command for every combination of parameter values.",
        epilog=(
            "example:\n"
            "  simple_hypersearch 'python train.py --lr {lr} --bs {bs}' "
            "-p lr 0.1 0.01 -p bs 32 64\n\n"
            "Pipe the output into `simple_gpu_scheduler --gpus 0,1` or `stoker feed --on 0,1`."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command_pattern", help="a command in which {NAME} stands for a value")
    parser.add_argument(
        "--sampling-mode",
        choices=("shuffled_grid", "grid"),
        default="shuffled_grid",
        help="the grid in order, or in random order (which is the default)",
    )
    parser.add_argument("--n-samples", type=int, metavar="N", help="only N of the combinations")
    parser.add_argument("--seed", type=int, help="makes the random order repeatable")
    parser.add_argument(
        "-p",
        "--parameter",
        nargs="+",
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="a parameter and its values; may be repeated, e.g. -p lr 0.1 0.01",
    )
    return parser


def commands(
    pattern: str,
    parameters: dict[str, list[str]],
    *,
    shuffled: bool = False,
    seed: int | None = None,
    most: int | None = None,
) -> Iterator[str]:
    """The pattern filled in with the combinations; the last parameter changes first."""
    values = list(parameters.values())
    if not shuffled:
        for combination in itertools.islice(itertools.product(*values), most):
            yield pattern.format_map(dict(zip(parameters, combination, strict=True)))
        return
    # Numbers are shuffled in place of combinations: they are small, and end up in the same order.
    places = list(range(math.prod(len(some) for some in values)))
    random.Random(seed).shuffle(places)
    for place in places[:most]:
        chosen = {}
        for name, some in reversed(parameters.items()):
            place, which = divmod(place, len(some))
            chosen[name] = some[which]
        yield pattern.format_map(chosen)


def _refusal(error: Exception) -> UsageError:
    if isinstance(error, KeyError):
        name = error.args[0]
        return UsageError(
            f"{{{name}}} in the command pattern has no values", f"add e.g. -p {name} 1 2"
        )
    return UsageError(
        f"the command pattern can't be understood: {error}", "write {NAME}, or {{ for a brace"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    try:
        return _print(_parser().parse_args(argv))
    except UsageError as error:
        return refused(PROGRAM, error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _print(args: argparse.Namespace) -> int:
    parameters = {name: values for name, *values in args.parameter}
    if not parameters:
        raise UsageError("no parameter was given", "add e.g. -p lr 0.1 0.01")
    for name, values in parameters.items():
        if not values:
            raise UsageError(f"-p {name} has no values", f"add e.g. -p {name} 0.1 0.01")
    if args.n_samples is not None and args.n_samples < 0:
        raise UsageError(f"--n-samples {args.n_samples} is negative", "write e.g. --n-samples 5")
    shuffled = args.sampling_mode == "shuffled_grid"
    if shuffled and math.prod(map(len, parameters.values())) > _MOST_SHUFFLED:
        raise UsageError("there are too many combinations to shuffle", "use --sampling-mode grid")
    made = commands(
        args.command_pattern, parameters, shuffled=shuffled, seed=args.seed, most=args.n_samples
    )
    try:
        for command in made:
            sys.stdout.write(command + "\n")
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has had enough; the interpreter must not complain of that at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
        raise _refusal(error) from None
    return 0


entry = main  # of the command

if __name__ == "__main__":
    sys.exit(main())
