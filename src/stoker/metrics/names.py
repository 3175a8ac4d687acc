"""What the name of a metric tells: whether less or more of it is better; and slips in names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stoker.errors import NotFound, quoted
from stoker.text.suggest import nearest

_LESS = frozenset((
    "loss", "losses", "err", "error", "errors", "perplexity", "ppl", "nll", "bpb", "bpc", "mse",
    "rmse", "mae", "mape", "wer", "cer", "fid", "kl", "regret", "latency",
))  # fmt: skip
_MORE = frozenset((
    "acc", "accuracy", "auc", "auroc", "f1", "precision", "recall", "score", "reward", "return",
    "returns", "bleu", "rouge", "map", "iou", "miou", "dice", "r2", "psnr", "ssim", "hits", "top1",
    "top5", "throughput",
))  # fmt: skip
_WORDS = re.compile(r"[^a-z0-9]+")
_OF_VALIDATION = frozenset(("val", "valid", "validation", "eval", "test", "dev"))
_SHOWN = 20


def goal_of(name: str) -> str | None:
    """ "min" if less of a metric is better, "max" if more is; None if its name does not tell."""
    words = _WORDS.split(name.lower())
    less, more = (any(word in known for word in words) for known in (_LESS, _MORE))
    return None if less == more else "min" if less else "max"


def in_likely_order(names: Iterable[str]) -> list[str]:
    """Names of metrics, the most telling first: losses and the like, and of these validation's."""

    def rank(name: str) -> tuple[bool, bool, bool]:
        goal, words = goal_of(name), _WORDS.split(name.lower())
        return goal is None, _OF_VALIDATION.isdisjoint(words), goal == "max"

    return sorted(names, key=rank)


def no_metric(name: str, there: Sequence[str]) -> NotFound:
    """What is said of a metric that never appears: the names that do."""
    guess = nearest(name, list(there[:1000]))
    meant = f"did you mean {guess}? " if guess else ""
    return NotFound(f"no metric is called {quoted(name)}", meant + there_are(there))


def there_are(names: Sequence[str]) -> str:
    """The names of metrics, the first ones of very many."""
    if not names:
        return "there are no metrics in these jobs"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return "there are: " + ", ".join(names[:_SHOWN]) + more
