"""How long `stoker results` takes for a sweep of very many points with two metrics."""

from __future__ import annotations

import time

from harness.instance import Instance
from harness.measures import Goal, Report, measure
from harness.setting import Setting

_COMMAND = "echo step 1 loss=0.{x} acc=0.{x}; echo step 2 loss=0.1{x} acc=0.0{x}"


def results(setting: Setting) -> list[Report]:
    """The time of the command, once the logs were read."""
    points = setting.so_many(10_000, 300)
    with Instance(setting.scratch, gpus="0-7") as instance:
        instance.run("sweep", f"x=range({points})", "--name", "many", "--", _COMMAND)
        instance.run("wait", "--group", "many")
        shown = ("results", "many", "--minimize", "loss")
        instance.run(*shown)  # waits until all logs are read
        measures = []
        for words in ((*shown, "--top", "5"), shown, (*shown, "--csv"), (*shown, "--json")):
            took = []
            for _ in range(setting.times(5)):
                began = time.perf_counter()
                instance.run(*words)
                took.append(time.perf_counter() - began)
            said = " ".join(["results", *words[4:]])
            setting.say(f"results: {said}: {min(took):.2f} s")
            measures.append(measure(said, took, "s", must=Goal(1.0), slack=0.1))
    return [Report("results", f"for the results of {points:,} points with two metrics", measures)]
