"""All verbs, one file each: the table of a verb is `VERB` in the module of its name.

A verb is imported only when it is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.cli.options import Verb

# In the order in which help and the reference show them.
SECTIONS = (
    ("Jobs", (
        "add", "run", "shell", "adopt", "feed", "sweep", "batch", "ls", "show", "why", "logs",
        "wait", "metrics", "results", "report",
    )),
    ("Changing them", (
        "cancel", "retry", "requeue", "yield", "suspend", "hold", "release", "edit", "rm",
    )),
    ("The queue and the machine", (
        "status", "top", "pause", "resume", "groups", "gpus", "profiles", "simulate", "cluster",
        "disk", "config", "daemon",
    )),
    ("The page", ("web", "token")),
    ("Help", ("help", "demo", "completion", "doctor", "selftest", "uninstall")),
)  # fmt: skip
VERBS = tuple(verb for _, verbs in SECTIONS for verb in verbs)


def load(name: str) -> Verb:
    """The table of a verb."""
    module = __import__(f"stoker.cli.verbs.{name}", fromlist=["VERB"])
    verb: Verb = module.VERB
    return verb


def all_verbs() -> list[Verb]:
    """Every verb, families followed by their members."""
    return [one for name in VERBS for verb in [load(name)] for one in (verb, *verb.verbs)]
