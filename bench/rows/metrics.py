"""How long it takes to find the metrics in a log of 100 MB, and grep to go through it."""

from __future__ import annotations

import resource
import subprocess
import sys

from harness.measures import Goal, Report, measure
from harness.setting import Setting
from harness.training_logs import FORMS, write_log

_READ = """
import sys
from stoker.metrics.attempt import read_attempt
from stoker.metrics.spec import Spec
print(len(read_attempt(Spec(1, 1, log=sys.argv[1]))))
"""


def metrics(setting: Setting) -> list[Report]:
    """Processor time, for logs of many forms."""
    size = setting.so_many(100, 5) * 1_000_000
    measures = []
    for form in FORMS:
        path = setting.scratch / "train.log"
        scale = size / write_log(path, form, size)
        reads, greps = [], []
        for _ in range(setting.times(5)):
            reads.append(_cpu_s([sys.executable, "-c", _READ, str(path)]) * scale)
            greps.append(_cpu_s(["grep", "-ac", "train_loss", str(path)]) * scale)
            setting.say(f"metrics: {form}: {reads[-1]:.2f} s, grep {greps[-1]:.2f} s")
        measures.append(measure(form, reads, "s", must=Goal(2.0), slack=0.1))
        measures.append(measure(f"grep -c, {form}", greps, "s"))
        path.unlink()
    return [Report("metrics", "of one core, for the metrics in a log of 100 MB", measures)]


def _cpu_s(words: list[str]) -> float:
    """The processor time that a process takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # grep ends at the first line that matches if its output goes to /dev/null.
    done = subprocess.run(words, stdout=subprocess.PIPE)
    assert done.returncode in (0, 1), "1 is what grep says if there are none"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
