"""How well Stoker decides, in virtual time: `python bench/scheduling --seeds 5 --only packing`.

The figures do not depend on the machine, nor on its load. A row whose trace is not there is left
out, and named.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scheduling.rows import ROWS, NotThere
from stoker.sim.play import POLICIES


def main() -> int:
    """Play the rows, and print the table."""
    parser = argparse.ArgumentParser(prog="bench/scheduling", description=__doc__)
    parser.add_argument("--only", default="", metavar="ROW,...", help="only these rows")
    parser.add_argument("--seeds", type=int, default=20, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (%(default)s)")
    parser.add_argument("--policy", default="fifo", choices=POLICIES, help="(%(default)s)")
    parser.add_argument("--each", action="store_true", help="print the figures of each seed too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--list", action="store_true", help="print the rows")
    args = parser.parse_args()
    if args.list:
        for name, row in ROWS.items():
            print(f"{name:<18}{row.what}")
        return 0
    names = [name for name in args.only.split(",") if name] or list(ROWS)
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    kept: dict[str, dict[str, list[float]]] = {}
    for name in names:
        row, began = ROWS[name], time.process_time()
        found: dict[str, list[float]] = {}
        seeds = range(args.first, args.first + (args.seeds if row.seeded else 1))
        try:
            for seed in seeds:
                for figure, value in row.play(seed, args.policy).items():
                    found.setdefault(figure, []).append(value)
                if args.each:
                    shown = ", ".join(f"{n} {v[-1]:.4g}" for n, v in found.items())
                    print(f"  {name} seed {seed}: {shown}", flush=True)
        except NotThere as error:
            print(f"{name:<18}left out: {error}", flush=True)
            continue
        kept[name] = found
        shown = "; ".join(_shown(figure, values) for figure, values in found.items())
        took_s = (time.process_time() - began) / len(seeds)
        print(f"{name:<18}{shown}  [{took_s:.1f} s a run]", flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


def _shown(figure: str, values: list[float]) -> str:
    mean = statistics.mean(values)
    spread = f" ({min(values):.4g}-{max(values):.4g})" if min(values) != max(values) else ""
    return f"{figure} {mean:.4g}{spread}"


if __name__ == "__main__":
    sys.exit(main())
