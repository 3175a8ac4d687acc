"""What a word that Stoker does not have was meant to be: another tool's word, or a slip."""

from __future__ import annotations

# The words of other tools (Slurm, PBS, pueue, task-spooler, Docker) for verbs, members of verbs,
# options and states. A word may have several: the first whose own first word is known is meant.
_SYNONYMS = {
    # verbs
    "remove": "rm", "delete": "rm", "del": "rm", "clean": "rm", "clear": "rm", "purge": "rm",
    "rm": "remove", "stop": "cancel", "kill": "cancel", "abort": "cancel", "terminate": "cancel",
    "scancel": "cancel", "qdel": "cancel", "submit": "add", "sbatch": "add", "qsub": "add",
    "enqueue": "add", "new": "add", "start": "release", "srun": "run", "exec": "run",
    "salloc": "shell", "interactive": "shell", "bash": "shell", "sh": "shell",
    "zsh": "shell", "track": "adopt",
    "claim": "adopt", "register": "adopt", "pid": "adopt|--after-pid", "queue": "ls|--group",
    "jobs": "ls", "list": "ls", "squeue": "ls", "qstat": "ls", "ps": "ls", "history": "ls --all",
    "sacct": "ls --all", "ls": "list", "tail": "logs -f|--lines", "follow": "logs -f",
    "log": "logs", "output": "logs|--out", "cat": "logs", "attach": "logs -f", "info": "show",
    "describe": "show", "inspect": "show", "details": "show", "scontrol": "show",
    "explain": "why", "restart": "retry", "preempt": "yield", "evict": "yield", "rerun": "retry",
    "freeze": "suspend", "thaw": "resume", "sigstop": "suspend", "sigcont": "resume",
    "stash": "hold", "unhold": "release", "unpause": "resume", "continue": "resume",
    "update": "edit", "modify": "edit", "change": "edit", "sinfo": "gpus", "nvidia-smi": "gpus",
    "devices": "gpus|--on", "nodes": "gpus", "array": "sweep", "grid": "sweep",
    "search": "sweep", "tune": "sweep", "optimize": "sweep", "hyperopt": "sweep",
    "best": "results best", "import": "batch",
    "monitor": "top", "watch": "top", "htop": "top", "dashboard": "web", "ui": "web",
    "page": "web", "gui": "web", "settings": "config", "set": "config set", "server": "daemon",
    "shutdown": "daemon stop", "version": "--version",
    # options
    "gpu": "--gpus", "num-gpus": "--gpus", "ngpus": "--gpus", "gres": "--gpus",
    "gpus-per-node": "--gpus", "device": "--on", "gpu-ids": "--on", "nodelist": "--on",
    "memory": "--mem", "vram": "--mem", "gpu-mem": "--mem", "gpu-memory": "--mem",
    "mem-per-gpu": "--mem",
    "cores": "--cpus", "cpus-per-task": "--cpus", "threads": "--cpus", "time": "--time-limit",
    "walltime": "--time-limit", "timeout": "--time-limit", "dependency": "--after",
    "depends-on": "--after", "depend": "--after", "label": "--name|--group", "job-name": "--name",
    "title": "--name", "tag": "--group", "partition": "--slurm|--group", "chdir": "--cwd",
    "workdir": "--cwd", "working-directory": "--cwd", "dir": "--cwd", "export": "--env",
    "error": "--err|failed", "delay": "--at", "begin": "--at", "after-time": "--at",
    "stashed": "--hold|held", "max-retries": "--retries", "jobs-per-gpu": "--max-per-gpu",
    # states, which are also used as verbs
    "pending": "waiting|ls --state waiting", "queued": "waiting|ls --state waiting",
    "waiting": "ls --state waiting", "running": "ls --state running",
    "failed": "ls --state failed", "succeeded": "ls --state succeeded",
    "done": "succeeded|ls --state succeeded", "completed": "succeeded|ls --state succeeded",
    "finished": "succeeded|ls --state succeeded", "pd": "waiting", "active": "running",
    "started": "running", "suspended": "running", "r": "running",
    "paused": "held", "complete": "succeeded",
    "cd": "succeeded", "success": "succeeded", "ok": "succeeded", "errored": "failed",
    "crashed": "failed", "oom": "failed", "killed": "cancelled", "canceled": "cancelled",
    "aborted": "cancelled",
}  # fmt: skip


def meant(word: str, known: list[str]) -> str:
    """What was probably meant, of what is known: by another tool's word, else by its letters."""
    found = synonym(word, known) or nearest(word, known)
    if found or len(word) <= 4:
        return found
    # One slip in another tool's word, as in `sucess`; short words are near to too much.
    typed = word.lower().lstrip("-")
    slips = (synonym(one, known) for one in _SYNONYMS if _distance(typed, one) == 1)
    return next(filter(None, slips), "")


def synonym(word: str, known: list[str]) -> str:
    """Stoker's word for another tool's, if it is among the known ones; else ""."""
    typed = word.lower().lstrip("-").replace("_", "-")
    for guess in _SYNONYMS.get(typed, "").split("|"):
        if guess and guess.split(" ", 1)[0] in known:
            return guess
    return ""


def nearest(word: str, known: list[str]) -> str:
    """The known word that is nearest to what was typed, or "" if none is near enough."""
    typed = word.lower().lstrip("-")
    best, best_cost = "", len(typed) // 2 + 1
    for candidate in known:
        bare = candidate.lstrip("-")
        if len(bare) == 1 < len(typed):
            continue
        # The beginning of a longer word is the likeliest slip of all.
        cost = 1 if typed and bare.startswith(typed) else _distance(typed, bare)
        if cost < best_cost:
            best, best_cost = candidate, cost
    return best


def _distance(a: str, b: str) -> int:
    """How many letters to insert, drop, change or swap to turn one word into the other."""
    a, b = a[:40], b[:40]
    before: list[int] = []
    above = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, above = above, row
    return above[-1]
