"""Kills the daemon again and again while jobs end, and counts what their users were told.

`python -m crash.told_once --kills 500` (in `tests`); `make test` runs a short stretch of it.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from message_sinks import Sink, http_sink, left_to_tell, smtp_sink
from stoker_home import StokerHome, kill_and_wait, lines_of
from waiting import eventually

_JOBS_PER_KILL = 2
_GROUP_EVERY = 10  # kills


class ToldOnce:
    """One home, its two addresses, and what should arrive there."""

    def __init__(self, home: StokerHome, web: Sink, mail: Sink, seed: int) -> None:
        self._home = home
        self._sinks = (web, mail)
        self._chance = random.Random(seed)
        self._hooks = home.work / "hooks"
        self.single: list[int] = []
        self.groups: dict[str, list[int]] = {}

    def run(self, kills: int) -> None:
        """Queue, kill and start; then wait until nothing is left to tell, and compare."""
        home, chance = self._home, self._chance
        daemon = home.start(gpus="0-3")
        home.call("config_set", name="notify", value=" ".join(sink.url for sink in self._sinks))
        for number in range(kills):
            self._queue(number)
            # From the middle of a turn up to the middle of a message.
            time.sleep(chance.choice((0.0, 0.01, 0.1, 0.5, 1.5)) * chance.random())
            kill_and_wait(daemon)
            daemon = home.start()
            for sink in self._sinks:  # A service that is away for a while has to be asked again.
                sink.refuses = chance.random() < 0.1
        for sink in self._sinks:
            sink.refuses = False
        every = [*self.single, *(one for ids in self.groups.values() for one in ids)]
        home.until_final(*every)
        database = home.home.database
        eventually(lambda: not left_to_tell(database), "all is told", timeout_s=600)
        eventually(lambda: len(lines_of(self._hooks)) >= len(every), "all hooks have run")
        self.check()

    def _queue(self, number: int) -> None:
        hook = f"echo $(cat) | cut -c1-20 >> {self._hooks}"
        codes = [self._chance.choice((0, 0, 0, 1)) for _ in range(_JOBS_PER_KILL)]
        job = {"notify": True, "hook": hook}
        jobs = [{"argv": ["sh", "-c", f"exit {code}"], **job} for code in codes]
        self.single += self._home.submit_all(jobs)
        if number % _GROUP_EVERY == 0:
            name = f"group{number}"
            group = [{**one, "group": name} for one in jobs]
            self.groups[name] = self._home.submit_all(group)

    def check(self) -> None:
        """Each end at each address exactly once, and each hook."""
        jobs = self._home.jobs()
        wanted = Counter(f"job {i} has {jobs[i]['state']}" for i in self.single)
        for name, ids in self.groups.items():
            states = Counter(jobs[i]["state"] for i in ids)
            said = [
                f"{states[state]} {state}" for state in ("succeeded", "failed") if states[state]
            ]
            wanted[f"group {name} has ended: {', '.join(said)}"] += 1
        failed = Counter(
            n for n, ids in self.groups.items() if any(jobs[i]["exit_code"] for i in ids)
        )
        for sink in self._sinks:
            told = Counter(sink.titles())
            first = Counter(
                title.rpartition(" ")[2] for title in told.elements() if "first of" in title
            )
            assert first == failed, f"first failures: {first - failed}, missing {failed - first}"
            told = Counter(t for t in told.elements() if "first of" not in t)
            assert told == wanted, f"too many: {told - wanted}; missing: {wanted - told}"
            assert not any("second copy" in text for _, text in sink.arrived)
        hooks = Counter(int(line.split(":")[1].split(",")[0]) for line in lines_of(self._hooks))
        every = Counter([*self.single, *(one for ids in self.groups.values() for one in ids)])
        assert hooks == every, f"hooks: {hooks - every}, missing {every - hooks}"


def main() -> int:
    """Run it as long as is said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    args = parser.parse_args()
    print(f"{args.kills} kills, seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory, http_sink() as web, smtp_sink() as mail:
        home = StokerHome(Path(directory))
        try:
            run = ToldOnce(home, web, mail, args.seed)
            run.run(args.kills)
        finally:
            home.clean_up()
    refused = web.refused + mail.refused
    print(f"{len(web.arrived)} messages by HTTP, {len(mail.arrived)} by mail, {refused} refused")
    print("each was told exactly once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
