"""`stoker sweep`: queue a parameter space, one job per point; `sweep show` and `sweep ls`.

Only the tables are here, so that help and completion load nothing else.
"""

from __future__ import annotations

from stoker import quantities
from stoker.cli.jobspec import COMMAND_NOTE, job_options
from stoker.cli.options import JSON, Args, Option, Positional, Verb
from stoker.errors import UsageError
from stoker.quantities import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 1_000_000
_count = quantities.number_within(1, _MOST)


def _repeat(text: str) -> tuple[str, int]:
    name, equals, count = text.partition("=")
    if not equals or not name:
        raise UsageError(
            f"{quantities.quoted(text)} is not NAME=COUNT", "write e.g. --repeat seed=3"
        )
    return name, quantities.whole_number(count, 1, _MOST)


def _one_of(*words: str) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in words:
            raise UsageError(
                f"{quantities.quoted(text)} is not known", f"write {' or '.join(words)}"
            )
        return text

    return convert


def _sweep(args: Args) -> None:
    from stoker.cli.sweeping.queueing import sweep

    sweep(args)


def _show(args: Args) -> None:
    from stoker.cli.sweeping.results import show

    show(args)


def _ls(args: Args) -> None:
    from stoker.cli.sweeping.results import ls

    ls(args)


_OWN_OPTIONS = (
    Option("file", "take the parameters (and the command) from a YAML or TOML file", "FILE",
           short="f", files="file"),
    Option("parameter", "a parameter and its values, in the older form; may be repeated",
           "NAME VALUE...", short="p", repeat=True, many=True),
    Option("samples", "N random points instead of the whole grid; of a search, its trials", "N",
           _count),
    Option("seed", "random seed for --samples and --shuffle (default: 0)", "N",
           quantities.number_within(0, 2**63 - 1, "seed")),
    Option("shuffle", "queue the grid in random order"),
    Option("where", "only points for which this is true; may be repeated", "EXPRESSION",
           repeat=True),
    Option("repeat", "run each point N times, with an extra parameter that is 0, 1, 2...", "seed=3",
           _repeat),
    Option("style", "how parameters without a {place} are appended: flags (--lr 0.1) or hydra "
           "(lr=0.1)", "STYLE", _one_of("flags", "hydra"), choices=("flags", "hydra")),
    Option("rerun", "failed: only points that did not succeed; all: also points that succeeded",
           "WHICH", _one_of("failed", "all"), choices=("failed", "all")),
    Option("minimize", "search for the lowest value of this metric: each point is chosen by the "
           "results of those before; may be repeated", "METRIC", repeat=True),
    Option("maximize", "the same for the highest value", "METRIC", repeat=True),
    Option("sampler", "how a search chooses, by Optuna's names: tpe, random, gp, cmaes, grid, qmc, "
           "nsgaii, bruteforce... (default: tpe)", "NAME"),
    Option("until", "end the search when a value is good enough", "'loss < 0.3'"),
    Option("for", "begin no more points of a search after this time", "8h",
           quantities.positive_duration_ms),
    Option("stop-early", "stop points of a search that are behind others at the same step: asha, "
           "median or hyperband", "RULE", choices=("asha", "median", "hyperband")),
    Option("min-steps", "stop no point early before this step", "N", _count),
    Option("max-running", "run at most N of the sweep's jobs at a time", "N", _count),
    Option("name", "a name for the sweep, which is the group of its jobs", "NAME",
           quantities.sweep_label),
    Option("dry-run", "print how many points there are, and the first ones; queue nothing"),
)  # fmt: skip

_SWEEP_ID = Positional(
    "ID", "a sweep's name, the id of any of its jobs, or last (the newest sweep)", plain
)

_SHOW = Verb(
    "sweep show",
    "show the results of a sweep: one row per point, with its parameters and its job",
    run=_show,
    positionals=(_SWEEP_ID,),
    options=(
        Option("metric", "also show the last value of this metric; may be repeated", "METRIC",
               repeat=True),
        Option("csv", "print CSV instead of a table"),
        JSON,
    ),
    examples=(
        ("stoker sweep show last", "the newest sweep"),
        ("stoker sweep show last --metric loss", "with the latest loss of each point"),
        ("stoker sweep show lr-search --csv > runs.csv", "for a spreadsheet"),
    ),
    notes=(
        "Only parameters that vary have a column; JSON has all of them. For a point that was "
        "run more than once, the latest job is shown. `stoker results` says which point was best.",
    ),
)  # fmt: skip
_LS = Verb(
    "sweep ls",
    "list the sweeps, with the states of their points",
    run=_ls,
    options=(JSON,),
    examples=(("stoker sweep ls", "all sweeps, the newest last"),),
)

VERB = Verb(
    "sweep",
    "queue a parameter space, one job per point",
    run=_sweep,
    positionals=(
        Positional("SPACE", "parameters: lr=0.1,0.01 or 'bs=range(16,65,16)'", plain, many=True,
                   optional=True),
    ),
    options=(*_OWN_OPTIONS, *job_options("sweep"), JSON),
    command="optional",
    verbs=(_SHOW, _LS),
    examples=(
        ("stoker sweep lr=0.1,0.01 bs=16,32 -- python train.py --lr {lr} --bs {bs}", "four jobs"),
        ("stoker sweep 'wd=loguniform(1e-6,1e-2)' --samples 40 -- python train.py",
         "40 random values; --wd and its value are appended"),
        ("stoker sweep 'm=zip(model=[vit,resnet],opt=[adamw,sgd])' --repeat seed=3 -- "
         "python train.py", "two pairs, three seeds each"),
        ("stoker sweep lr=0.1,0.01 bs=16,32 --where 'lr*bs < 2' --dry-run -- python train.py",
         "show the points without queueing them"),
        ("stoker sweep 'lr=loguniform(1e-5,1e-1)' 'bs=choice(16,32,64)' --minimize val_loss "
         "--samples 60 --max-running 4 -- python train.py",
         "a search: each point is chosen by the results of those before"),
        ("stoker sweep 'lr=loguniform(1e-5,1e-1)' --minimize val_loss --samples 60 "
         "--stop-early asha --min-steps 3 -- python train.py",
         "a search that stops points early if others are better at the same step"),
        ("stoker sweep -f sweep.yaml --max-running 4", "a W&B sweep file"),
        ("stoker sweep show last", "show the results"),
    ),
    notes=(
        "Values: a list (0.1,0.01), range(START,STOP,STEP), zip(a=[..],b=[..]) for values that "
        "belong together; with --samples also uniform(LOW,HIGH), loguniform(LOW,HIGH), "
        "randint(LOW,HIGH), normal(MEAN,DEVIATION) and choice(a,b). Quote arguments that "
        "contain brackets.",
        "{lr} in the command, in --out and in --err is replaced by the point's value, {lr:.2g} "
        "by the formatted value, {point} by a short name of the point. A parameter that is not "
        "used in the command is appended to it.",
        "The first parameter changes most slowly. Points with the same command, directory and "
        "parameters are the same point: if the sweep is submitted again, only points that are "
        "new or have not succeeded are queued; those that are queued or running are left alone.",
        "With --minimize or --maximize, points are chosen one by one by Optuna (the extra search). "
        "The same command again goes on with the search; a larger --samples extends it. "
        "`stoker cancel --group NAME` ends it.",
        "The sweep's name is printed on stdout: stoker wait --group $(stoker sweep ...). All "
        "other options are those of `stoker add` and apply to each point.",
        COMMAND_NOTE,
    ),
)  # fmt: skip
