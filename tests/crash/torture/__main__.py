"""`python -m crash.torture --seconds 600 --seed 7`: see the package."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from types import FrameType

from crash.torture.built import build
from crash.torture.driver import Driver
from crash.torture.ending import end
from crash.torture.laws import Case, violations
from crash.torture.place import Place
from crash.torture.records import read_records
from crash.torture.report import report
from crash.torture.schedule import CLASSES, schedule

_NEEDS_DISK = {"full-disk", "inodes"}


def torture(
    seconds: float, seed: int, most_queued: int, without: frozenset[str], patience_s: float
) -> tuple[int, str]:
    """One run: how many violations there were, and the table."""
    place = Place()
    driver = None
    found = None
    try:
        if place.no_disk_because:
            print(f"left out: {', '.join(sorted(_NEEDS_DISK))} ({place.no_disk_because})")
            without |= _NEEDS_DISK
        driver = Driver(place, build(place.root), seed, most_queued, without)
        driver.set_up()
        steps = schedule(seed, seconds, without)
        began = time.monotonic()
        driver.run(steps, seconds)
        lasted_s = time.monotonic() - began
        answers = end(driver, place, patience_s)
        case = Case(driver.log, read_records(place.records), answers, _outcomes(place))
        found = violations(case)
        text = report(case, found, lasted_s, seed, driver.shim.failed())
        if found:
            (place.root / "report").write_text(text, encoding="utf-8")
            text += f"\n\nkept: {place.keep_home().parent}"
        return len(found), text
    finally:
        if driver is not None:
            driver.faults.mend()
            driver.clients.end_all()
        place.stoker.clean_up()
        place.leave(keep=bool(found))


def _outcomes(place: Place) -> dict[str, str]:
    """What became of each future, by token."""
    found = {}
    for path in place.outputs.glob("*.outcome"):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            token, _, text = line.partition(" ")
            found[token] = text
    return found


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--jobs", type=int, default=150, help="the most that are queued at a time")
    parser.add_argument("--without", default="", help=f"of {', '.join(sorted(CLASSES))}")
    parser.add_argument("--patience", type=float, default=90, help="seconds, at the end")
    args = parser.parse_args()
    without = frozenset(word for word in args.without.split(",") if word)
    if unknown := without - CLASSES:
        parser.error(f"--without: there is no {', '.join(sorted(unknown))}")
    # Whatever ends a run leaves no process and no mount.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    print(f"torture: {args.seconds:.0f} s, seed {args.seed}", flush=True)
    try:
        count, text = torture(args.seconds, args.seed, args.jobs, without, args.patience)
    except KeyboardInterrupt:
        print("interrupted")
        return 130
    print(text)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
